"""Every file in sweeps/: its declarations are consistent, every arm composes, and it runs in miniature."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from asr_ablations.config.build import build, check_targets
from asr_ablations.config.plain_keys import check
from asr_ablations.language_models.model import SPACE
from asr_ablations.runs.listed_arms import read_arms
from asr_ablations.synthesis.corpus import plan
from asr_ablations.synthesis.speakers import SPLITS
from asr_verdicts.config import differences, within
from tests.helpers.command import SHORT_SPEECH, SHRUNKEN, SMALL_MODEL, clean_environment, run, run_folders
from tests.helpers.interpreter import expect, python
from tests.helpers.layouts import write_split
from tests.helpers.small_models import bigrams
from tests.helpers.support import CONF, component, shared_data
from tests.helpers.sweep_files import NAMES, SWEEPS, arms, choices, composed, is_decoding, is_search

every_sweep = pytest.mark.parametrize("name", NAMES)
MINI = ["data.train=[train-clean-5]", "data.validation=[dev-clean-2]", "data.test=[test-clean]"]
BESIDE = {folder.name for folder in SWEEPS.iterdir() if folder.is_dir()}
"""Groups of the sweeps' own: each choice sets several keys of the factor at once."""
COVERED = ("dropout", "precision_gpus", "rnn_rates", "rnn_type", "short_runs", "sortagrad")
"""Sweeps that change nothing that other sweeps do not change, too: they are composed and checked, but not run."""
SHORT = ["ranks=1", "max_epochs=1", "width=16", "layers=1", "logger=csv", "cache=none"]


def on_librispeech(cfg: Any) -> bool:
    return "data" in cfg and cfg.data._target_.endswith(".LibriSpeech")


def few_of_an4(folder: Path) -> Path:
    """The first speakers of AN4, as a corpus of their own."""
    for split, count in (("train", 6), ("test", 2)):
        (folder / split).mkdir(parents=True)
        for speaker in sorted(shared_data(f"an4/AN4/{split}").iterdir())[:count]:
            (folder / split / speaker.name).symlink_to(speaker, target_is_directory=True)
    return folder


def few_of_speechocean762(folder: Path) -> Path:
    """A sentence of some speakers of each set, as a corpus of its own."""
    source, few = (
        component("data", "speechocean762", root=str(root), held_out=None)
        for root in (shared_data("speechocean762"), folder)
    )
    for split in ("train", "dev", "test"):
        utterances = list(source.read(split))
        write_split(few, split, utterances[:: len(utterances) // 6])
    return folder


def speech(cfg: Any, folder: Path) -> list[str]:
    """Overrides that leave little speech: of the built-in corpus, or of genuine speech under its sets' names."""
    if cfg.data._target_.endswith(".AN4"):
        return [f"data.root={few_of_an4(folder / 'an4')}", "data.folds=4", "data.held_out=1"]
    if cfg.data._target_.endswith(".SpeechOcean762"):
        return [f"data.root={few_of_speechocean762(folder / 'speechocean762')}", "data.held_out=null"]
    if not on_librispeech(cfg):
        return SHORT_SPEECH
    named = "data.named={clean100: [train-clean-5], clean460: [dev-clean-2], full960: [train-clean-5, dev-clean-2]}"
    return [f"data.root={shared_data('librispeech-mini/LibriSpeech')}", named, "model=tiny", *MINI[1:]]


def miniature(cfg: Any) -> list[str]:
    """Overrides that leave two arms, or four of two crossed factors: the first value of each key, and two of the key
    with most values, or of both factors, the baseline's among them.
    """
    if is_search(cfg):
        return ["hydra.sweeper.n_trials=2", "hydra.sweeper.n_jobs=2"]
    values = choices(cfg)
    if cfg.get("arms"):
        text = {"alphabet.size": 30}  # so little text has few pieces
        few = [{key: text.get(key, value) for key, value in arm.items()} for arm in arms_of_a_kind(cfg)]
        listed = ",".join("{" + ",".join(f"{key}:{value}" for key, value in arm.items()) + "}" for arm in few)
        return ["seed=0", f"arms=[{listed}]"]
    longest = max(values, key=lambda key: (key != "seed", len(values[key])))
    varied = list(cfg.ablation.factor) if "contrasts" in cfg.ablation else [longest]
    kept = {key: two(listed, cfg) if key in varied else listed[:1] for key, listed in values.items()}
    for key, few in {"data.hours": ["0.02", "0.03"], "data.subset.hours": ["0.001", "0.003"]}.items():
        kept |= {key: few, "ablation.baseline": few[:1]} if key in kept else {}
    return [f"{key}={','.join(listed)}" for key, listed in kept.items()]


def kind(word: str) -> str:
    """What an override changes: an option, or a key if its value is a number."""
    key, _, value = word.partition("=")
    return key if re.fullmatch(r"[-+.\de]+", value) else word


def arms_of_a_kind(cfg: Any) -> list[dict[str, Any]]:
    """The first of the listed arms that change the same options and keys."""
    first: dict[frozenset[str], dict[str, Any]] = {}
    for arm in cfg.arms:
        changes = frozenset(kind(f"{key}={value}") for key, value in arm.items() if key != "name")
        first.setdefault(changes, dict(arm))
    return [*first.values()]


def two(values: list[str], cfg: Any) -> list[str]:
    """The first of the values and the baseline's, or the second."""
    baselines = [part.rpartition("=")[2] for part in str(cfg.ablation.get("baseline", "")).split(",")]
    wanted = [values[0], *(value for value in values if value in baselines), *values]
    return list(dict.fromkeys(wanted))[:2]


def arms_in_miniature(cfg: Any) -> int:
    """How many arms are left to compare."""
    if cfg.get("arms"):
        return len(arms_of_a_kind(cfg))
    return 1 if cfg.ablation.factor == "seed" else 4 if "contrasts" in cfg.ablation else 3 if "models" in cfg else 2


def answered(cfg: Any, sweep: Path, folder: Path) -> None:
    """The runs are compared for real: each question's verdict is printed."""
    done = expect(
        0, python(["src/compare.py", sweep, "--full", "--no-page", "--out", folder], clean_environment(folder, folder))
    )
    comparison = json.loads((folder / "comparison.json").read_text())
    assert len(comparison["arms"]) == arms_in_miniature(cfg)
    assert bool(comparison["verdicts"]) == (len(comparison["arms"]) > 1 and not is_search(cfg))
    assert ("Runs of the search" in done.stdout) == is_search(cfg)
    assert all(verdict in done.stdout for verdict in comparison["verdicts"])
    assert cfg.ablation.question in done.stdout


@every_sweep
def test_it_says_what_it_asks(name: str) -> None:
    ablation = composed(name).ablation
    assert ablation.question
    assert ablation.get("factor") or composed(name).get("arms")


@every_sweep
def test_no_config_of_the_project_has_its_name(name: str) -> None:
    """`-cn` would find that one instead."""
    assert not (CONF / f"{name}.yaml").exists()


@every_sweep
def test_every_arm_composes_and_differs_in_the_factor_alone(name: str) -> None:
    cfg = composed(name)
    factor = cfg.ablation.get("factor") or [key for arm in read_arms(cfg.arms) for key in arm.keys]
    allowed = {*([factor] if isinstance(factor, str) else factor), "seed"}
    assert set(cfg.hydra.sweeper.params) <= allowed | BESIDE
    if is_search(cfg):
        return
    contents = []
    seeds = choices(cfg).get("seed", [""])[1:]  # the arms of other seeds differ in the seed alone
    for arm in arms(cfg):
        if any(f"seed={seed}" in arm for seed in seeds):
            continue
        one = composed(name, *arm, "overrides=[]")
        OmegaConf.set_struct(one, False)
        del one["hydra"]
        check_targets(one) if is_decoding(name) else check(one)
        contents.append(OmegaConf.to_container(one))
    if BESIDE & set(cfg.hydra.sweeper.params):
        changed = {key for content in contents for key, _, _ in differences(contents[0], content)}
        assert [key for key in changed - {"tune.trials"} if not within(key, allowed)] == []
        assert all(any(within(key, [one]) for key in changed) for one in allowed - {"seed"})


def test_the_arms_of_training_size_are_tested_on_the_same_utterances() -> None:
    """Only then can its arms be compared: the same jobs, into the same folders, for all sets but the training set."""
    cfg = composed("training_size")
    requests = [build(composed("training_size", *arm).data).request for arm in arms(cfg) if "seed=0" in arm]
    assert len({(request.language, request.words, request.seed) for request in requests}) == 1
    planned = {split: [plan(Path(), request, split) for request in requests] for split in SPLITS}
    assert [round(sum(job.seconds for job in jobs)) for jobs in planned["train"]] == [1800, 3600, 7200, 14400]
    for split in cfg.data.validation + cfg.data.test:
        same = [[replace(job, request=requests[0]) for job in jobs] for jobs in planned[split]]
        assert all(jobs == same[0] for jobs in same)
    tested = [sum(job.utterances or 0 for job in planned[split][0]) for split in cfg.data.test]
    assert tested == [1000, 1000]


def test_what_is_not_run_changes_nothing_that_is_not_changed_elsewhere() -> None:
    listed = [name for name in NAMES if not is_search(composed(name))]
    changed = {
        name: {kind(word) for arm in arms(composed(name)) for word in arm if not word.startswith("arm=")}
        for name in listed
    }
    run_ones = set().union(*(changed[name] for name in listed if name not in COVERED))
    assert {name: changed[name] - run_ones for name in COVERED} == {name: set() for name in COVERED}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if not is_decoding(name) and name not in COVERED])
def test_it_runs_in_miniature(name: str, corpora: Path, tmp_path: Path) -> None:
    cfg = composed(name)
    few = miniature(cfg)
    varied = {*(word.partition("=")[0] for word in few), *cfg.hydra.sweeper.params}
    varied |= {key for arm in read_arms(cfg.get("arms")) for key in arm.keys}
    if BESIDE & varied:  # its options set the keys of the factor; ranks stay at one
        varied |= {*cfg.ablation.factor} - {"ranks"}
    small = {word.partition("=")[0]: word for word in (*speech(cfg, tmp_path), *SMALL_MODEL, *SHORT)}
    fixed = [word for key, word in small.items() if key not in varied]
    done = expect(0, run(["src/train.py", "-m", "-cd", "sweeps", "-cn", name, *fixed, *few], corpora, tmp_path))
    folders = run_folders(tmp_path)
    assert len(folders) == (len(arms_of_a_kind(cfg)) if cfg.arms else 4 if "contrasts" in cfg.ablation else 2)
    assert "WER" in done.stdout[done.stdout.rindex("arms") :]
    answered(cfg, folders[0].parent, tmp_path / "compared")


@pytest.fixture(scope="module")
def trained(corpora: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    few = "data.validation_sentences=1"  # a model that has learnt nothing keeps a beam search busy
    expect(0, run(["src/train.py", *SHRUNKEN, "max_epochs=1", few, "logger=csv"], corpora, folder))
    (found,) = run_folders(folder)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if is_decoding(name)])
def test_it_decodes_in_miniature(name: str, trained: Path, corpora: Path, tmp_path: Path) -> None:
    model = shutil.copytree(trained, tmp_path / trained.name)
    few = [f"run={model}", "untrained=decode", "sets=[test-clean]", *miniature(composed(name))]
    if "models" in composed(name):
        lists = {"words": ["a", "the", "i", "and"], "letters": [SPACE, "a", "e", "t"]}
        few += [f"models.{unit}={bigrams(f'{unit}.arpa', listed)}" for unit, listed in lists.items()]
        few = [*(word for word in few if not word.startswith("language_model=")), "models.trials=1"]  # all three arms
        few.append("decoder.beam_width=8")
    if name == "beam_width":
        (tmp_path / "words.txt").write_text("a\nthe\n")
        few.append(f"decoder.words={tmp_path / 'words.txt'}")
    words = ["src/evaluate.py", "-m", "-cd", "sweeps", "-cn", name, *few]
    done = expect(0, python(words, clean_environment(corpora, tmp_path)))
    assert "WER" in done.stdout
    answered(composed(name), model / "evaluations", tmp_path / "compared")


@pytest.mark.slow
def test_one_runs_on_an4(tmp_path: Path, corpora: Path) -> None:
    data = ["data=an4", f"data.root={shared_data('an4')}"]
    narrow = [f"model.convolutions.{layer}.channels=4" for layer in (0, 1)]
    _runs_twice("dropout", [*data, *narrow, "dropout=0,0.1", "batch.size=64"], corpora, tmp_path)


@pytest.mark.slow
def test_one_runs_on_genuine_librispeech(tmp_path: Path, corpora: Path) -> None:
    data = ["data=librispeech", f"data.root={shared_data('librispeech-mini/LibriSpeech')}", *MINI]
    _runs_twice("batch_size", [*data, "batch.size=4,8"], corpora, tmp_path)


def _runs_twice(name: str, options: list[str], corpora: Path, folder: Path) -> None:
    expect(0, run(["src/train.py", "-m", "-cd", "sweeps", "-cn", name, *options, *SHORT, "seed=0"], corpora, folder))
    assert len(run_folders(folder)) == 2


def test_no_two_runs_of_sources_of_noise_have_the_same_seeds() -> None:
    """Each arm but the first varies one stream."""
    streams = [
        tuple(int(keys.get(f"seeds.{name}", keys["seed"])) for name in ("init", "order", "dropout"))
        for keys in (dict(word.split("=") for word in arm) for arm in arms(composed("sources_of_noise")))
    ]
    assert len({*streams}) == len(streams) == 32
    varied = [sum(len({*values}) > 1 for values in zip(*streams[place::4], strict=True)) for place in range(4)]
    assert varied == [3, 1, 1, 1]

"""Every file in sweeps/: its head and declarations are right, every arm composes and gets a verdict."""

import copy
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf

from asr_ablations.commands.compare import main
from asr_ablations.comparison.folders import lay_out
from asr_ablations.config.build import build, check_targets
from asr_ablations.config.plain_keys import check
from asr_ablations.evaluation.request import decoder_name
from asr_ablations.runs.listed_arms import read_arms
from asr_ablations.sweep.preflight import find_differences
from asr_ablations.synthesis.corpus import plan
from asr_ablations.synthesis.speakers import SPLITS
from asr_ablations.tools.typed_json import parse
from asr_verdicts.comparison import Comparison, compare
from asr_verdicts.config import differences, within
from asr_verdicts.design import Options
from asr_verdicts.evidence import Evidence
from asr_verdicts.record import DataRecord
from asr_verdicts.statistics.procedures import FixedLength
from publish.heads import describe_cost, format_commands, replace_head
from tests.helpers.command import SHRUNKEN, run, run_folders
from tests.helpers.interpreter import expect
from tests.helpers.invented_records import record, records
from tests.helpers.support import CONF
from tests.helpers.sweep_files import NAMES, SWEEPS, arms, composed, is_decoding, is_search

Arms = list[tuple[list[str], DictConfig]]


def arm_configs(name: str) -> Arms:
    """The overrides of each arm, without seeds, with its config."""
    cfg, configs = composed(name), []
    searched = [["optimizer.lr=0.001", "batch.size=4"], ["optimizer.lr=0.002", "batch.size=8"]]
    words = searched if is_search(cfg) else arms(cfg)
    for overrides in dict.fromkeys(tuple(word for word in arm if not word.startswith("seed=")) for arm in words):
        arm = copy.deepcopy(composed(name, *overrides, "overrides=[]"))
        OmegaConf.set_struct(arm, False)
        del arm["hydra"]
        arm.overrides = list(overrides)
        configs.append((list(overrides), arm))
    return configs


def compared(name: str, listed: Arms, step: float, data: bool = False) -> Comparison:
    """Three seeds of every arm (twenty of the only one, one in a search), each arm worse by `step` than the one before
    it; decoders share their models. data: the training sets differ, and the test set is one.
    """
    runs = []
    seeds = 20 if len(listed) == 1 else 1 if is_search(composed(name)) else 3
    for number, (overrides, cfg) in enumerate(listed):
        config: Any = OmegaConf.to_container(cfg)
        if is_decoding(name):
            config = {key: config[key] for key in ("decoder", "ablation")}
        if name == "language_models":  # an evaluation's record names the decoder
            overrides = [f"decoder={decoder_name(OmegaConf.create(config))}"]
        language = next((word for word in overrides if word.startswith("data.language")), "s")
        for seed in range(seeds):
            run = record("x=y", seed, 0.2 + step * number, speakers=language)
            model = f"model-{seed}/last.ckpt" if is_decoding(name) else f"{name}-{number}-{seed}/last.ckpt"
            sets = {"sets": {"train": {"sha256": f"{overrides}"}, "test": {"sha256": "same"}}} if data else {}
            run = replace(run, config={**config, "seed": seed}, overrides=overrides, model=model)
            runs.append(replace(run, data=parse(DataRecord, sets)))
    every, options = records(runs), Options()
    declared = Evidence(FixedLength(), "all runs that were declared have ended", complete=True)
    return compare(every, options, name, declared, layout=lay_out(every, options, None))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_arm_composes_and_differs_in_the_factor_alone_and_every_question_gets_a_verdict(name: str) -> None:
    """One arm is described, and a search, with one run of each, decides nothing."""
    cfg, listed = composed(name), arm_configs(name)
    assert cfg.ablation.question
    assert cfg.ablation.get("factor") or cfg.get("arms")
    assert not (CONF / f"{name}.yaml").exists(), "-cn would find that one instead"
    factor = cfg.ablation.get("factor") or [key for arm in read_arms(cfg.arms) for key in arm.keys]
    allowed = {*([factor] if isinstance(factor, str) else factor), "seed"}
    groups = {folder.name for folder in SWEEPS.iterdir() if folder.is_dir()}  # each choice sets keys of the factor
    assert set(cfg.hydra.sweeper.params) <= allowed | groups
    text = (SWEEPS / f"{name}.yaml").read_text(encoding="utf-8")
    assert text == replace_head(text, name, cfg), "make docs writes it anew"
    question, first, second, *_ = text.splitlines()
    assert question.endswith("?")
    assert first.startswith(
        f"#   python src/{'evaluate' if is_decoding(name) else 'train'}.py -m -cd sweeps -cn {name}"
    )
    assert second.startswith("#   python src/compare.py ")
    counted = re.search(r"Cost computed by make docs: (?:at most )?(\d+)", text)
    assert counted
    assert int(counted[1]) == (cfg.hydra.sweeper.n_trials if is_search(cfg) else len(arms(cfg)))
    for _, arm in listed:
        check_targets(arm) if is_decoding(name) else check(arm)
    if groups & set(cfg.hydra.sweeper.params):
        contents = [OmegaConf.to_container(arm) for _, arm in listed]
        changed = {key for content in contents for key, _, _ in differences(contents[0], content)}
        assert [key for key in changed - {"tune.trials", "overrides"} if not within(key, allowed)] == []
        assert all(any(within(key, [one]) for key in changed) for one in allowed - {"seed"})

    comparison = compared(name, listed, 0.02)
    assert len(comparison.arms) == len(listed)
    declared = str(cfg.ablation.get("baseline", ""))
    wanted = declared.split(",") if "=" in declared else [f"={declared}"] if declared else []
    baseline = next(arm for arm in comparison.arms if arm.name == comparison.baseline)
    words = [word.replace("'", "") for word in baseline.runs[0].overrides]  # a name of several words is quoted
    assert all(any(word.endswith(part) for word in words) for part in wanted)
    if len(comparison.arms) == 1:
        assert (comparison.answer, len(comparison.arms[0].runs)) == ([], 20)
        return
    asked = cfg.ablation.get("contrasts")
    assert len(comparison.answer) >= (len(asked) if asked else len(comparison.arms) - 1)
    outcomes = {verdict.outcome for verdict in comparison.answer}
    assert outcomes == {"undecided"} if is_search(cfg) else "undecided" not in outcomes
    assert not [line for line in comparison.warnings if "not compared" in line or "ablation.expected" in line]
    if is_decoding(name) or is_search(cfg):
        return
    free = {
        "features": ["features=logmel40"],  # the source has features with cepstra, and none without
        "optimizer": ["optimizer=nesterov", "optimizer=adamw"],  # its claim is about plain gradient descent
    }
    better = [difference.arm for difference in find_differences([arm for _, arm in listed]) if difference.better]
    assert better == free.get(name, []), "another arm is a nearer baseline"


def test_the_arms_of_training_size_are_tested_on_the_same_utterances() -> None:
    """Only then can its arms be compared: the same jobs, into the same folders, for all sets but the training set."""
    cfg, listed = composed("training_size"), arm_configs("training_size")
    requests = [build(arm.data).request for _, arm in listed]
    assert len({(request.language, request.words, request.seed) for request in requests}) == 1
    planned = {split: [plan(Path(), request, split) for request in requests] for split in SPLITS}
    assert [round(sum(job.seconds for job in jobs)) for jobs in planned["train"]] == [1800, 3600, 7200, 14400]
    for split in cfg.data.validation + cfg.data.test:
        same = [[replace(job, request=requests[0]) for job in jobs] for jobs in planned[split]]
        assert all(jobs == same[0] for jobs in same)
    tested = [sum(job.utterances or 0 for job in planned[split][0]) for split in cfg.data.test]
    assert tested == [1000, 1000]
    comparison = compared("training_size", listed, 0.1, data=True)
    assert comparison.baseline == "data.hours=0.5"
    assert [verdict.outcome for verdict in comparison.answer] == ["worse"] * 3
    assert not [line for line in comparison.warnings if "not compared" in line]


@pytest.mark.slow
def test_one_runs_in_miniature_and_its_question_is_answered(
    corpora: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["src/train.py", "-m", "-cd", "sweeps", "-cn", "units", *SHRUNKEN, "max_epochs=1", "logger=csv", "seed=0"]
    few = "arms=[{name:letters},{name:bpe-30,alphabet:bpe,alphabet.size:30}]"
    done = expect(0, run([*words, few], corpora, tmp_path))
    assert len(run_folders(tmp_path)) == 2
    assert "WER" in done.stdout[done.stdout.rindex("arms") :]
    assert main([str(tmp_path / "units"), "--full", "--no-page", "--out", str(tmp_path / "compared")]) == 0
    comparison = json.loads((tmp_path / "compared" / "comparison.json").read_text())
    assert len(comparison["arms"]) == 2
    assert comparison["verdicts"]
    printed = capsys.readouterr().out
    assert all(verdict in printed for verdict in comparison["verdicts"])
    assert composed("units").ablation.question in printed


def test_no_two_runs_of_sources_of_noise_have_the_same_seeds() -> None:
    """Each arm but the first varies one stream."""
    streams = [
        tuple(int(keys.get(f"seeds.{name}", keys["seed"])) for name in ("init", "order", "dropout"))
        for keys in (dict(word.split("=") for word in arm) for arm in arms(composed("sources_of_noise")))
    ]
    assert len({*streams}) == len(streams) == 32
    varied = [sum(len({*values}) > 1 for values in zip(*streams[place::4], strict=True)) for place in range(4)]
    assert varied == [3, 1, 1, 1]


def test_what_is_written_by_hand_stays() -> None:
    by_hand = (
        "# Why?\n#   python src/train.py -m -cd s -cn old\n# Held fixed: all.\n#   python src/lm.py\ndefaults: []\n"
    )
    head = replace_head(by_hand, "rnn_type", composed("rnn_type"))
    assert head.startswith(
        "# Why?\n#   python src/train.py -m -cd sweeps -cn rnn_type\n#   python src/compare.py outputs/"
    )
    assert "# Held fixed: all.\n#   python src/lm.py\n# Cost computed by make docs: 9 runs" in head
    assert head.endswith("measures the time.\ndefaults: []\n")
    assert replace_head(head, "rnn_type", composed("rnn_type")) == head
    assert "-cn old" not in head


def test_a_cost_follows_its_file() -> None:
    """Hours of speech: runs × epochs × 2."""
    cfg = copy.deepcopy(composed("rnn_type"))
    assert "9 runs (3 arms, 3 seeds) of 6 epochs, 108 hours of speech" in describe_cost(cfg)
    cfg.hydra.sweeper.params = {"rnn": "gru,lstm", "max_epochs": "10,30"}
    assert "4 runs (4 arms, 1 seed) of 10 to 30 epochs, 160 hours of speech" in describe_cost(cfg)


def test_a_command_gives_what_its_file_leaves_open() -> None:
    assert format_commands(composed("librispeech_hours"), "librispeech_hours")[0].endswith(
        "librispeech_hours data.root=<folder>"
    )
    decoding = format_commands(composed("language_models"), "language_models")
    assert decoding[0].endswith("run=<folder of runs> models.words=<folder> models.letters=<folder>")
    assert decoding[1] == "#   python src/compare.py <a run's folder>/evaluations"

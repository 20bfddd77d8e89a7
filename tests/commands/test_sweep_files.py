"""Every file in sweeps/: its declarations are consistent, every arm composes, and two run in miniature."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from asr_ablations.commands import compare
from asr_ablations.config.build import build, check_targets
from asr_ablations.config.plain_keys import check
from asr_ablations.runs.listed_arms import read_arms
from asr_ablations.synthesis.corpus import plan
from asr_ablations.synthesis.speakers import SPLITS
from asr_verdicts.config import differences, within
from tests.helpers.command import SHRUNKEN, run, run_folders
from tests.helpers.interpreter import expect
from tests.helpers.support import CONF
from tests.helpers.sweep_files import NAMES, SWEEPS, arms, choices, composed, is_decoding, is_search


@pytest.mark.parametrize("name", NAMES)
def test_it_asks_a_question_and_every_arm_composes_and_differs_in_the_factor_alone(name: str) -> None:
    cfg = composed(name)
    assert cfg.ablation.question
    assert cfg.ablation.get("factor") or cfg.get("arms")
    assert not (CONF / f"{name}.yaml").exists(), "-cn would find that one instead"
    factor = cfg.ablation.get("factor") or [key for arm in read_arms(cfg.arms) for key in arm.keys]
    allowed = {*([factor] if isinstance(factor, str) else factor), "seed"}
    groups = {folder.name for folder in SWEEPS.iterdir() if folder.is_dir()}  # each choice sets keys of the factor
    assert set(cfg.hydra.sweeper.params) <= allowed | groups
    if is_search(cfg):
        return
    contents, composed_words = [], {f"seed={seed}" for seed in choices(cfg).get("seed", [])}
    for arm in arms(cfg):
        if composed_words.issuperset(arm):  # every value of every key is composed once
            continue
        composed_words.update(arm)
        one = composed(name, *arm, "overrides=[]")
        OmegaConf.set_struct(one, False)
        del one["hydra"]
        check_targets(one) if is_decoding(name) else check(one)
        contents.append(OmegaConf.to_container(one))
    if groups & set(cfg.hydra.sweeper.params):
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


@pytest.mark.slow
def test_one_runs_in_miniature_and_its_question_is_answered(
    corpora: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["src/train.py", "-m", "-cd", "sweeps", "-cn", "units", *SHRUNKEN, "max_epochs=1", "logger=csv", "seed=0"]
    few = "arms=[{name:letters},{name:bpe-30,alphabet:bpe,alphabet.size:30}]"
    done = expect(0, run([*words, few], corpora, tmp_path))
    assert len(run_folders(tmp_path)) == 2
    assert "WER" in done.stdout[done.stdout.rindex("arms") :]
    assert compare.main([str(tmp_path / "units"), "--full", "--no-page", "--out", str(tmp_path / "compared")]) == 0
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

"""What every file in sweeps/ asks can be answered: its arms compared for real, with invented results."""

from dataclasses import replace
from typing import Any

import pytest
from omegaconf import OmegaConf

from asr_ablations.comparison.comparison import compare_runs
from asr_ablations.comparison.design import Options
from asr_ablations.comparison.evidence import Evidence
from asr_ablations.comparison.result import Comparison
from asr_ablations.evaluation.request import decoder_name
from asr_ablations.runs.record import DataRecord, RunRecord, parse
from asr_ablations.statistics.power import FixedLength
from tests.helpers.invented_records import record, records
from tests.helpers.sweep_files import NAMES, arms, composed, is_decoding, is_search

DECLARED = Evidence(FixedLength(), "all runs that were declared have ended", complete=True)
SEARCHED = [["optimizer.lr=0.001", "batch.size=4"], ["optimizer.lr=0.002", "batch.size=8"]]


def choices(name: str) -> list[list[str]]:
    """The overrides of every arm, without seeds."""
    cfg = composed(name)
    if is_search(cfg):
        return SEARCHED
    return [
        list(arm) for arm in {tuple(word for word in arm if not word.startswith("seed=")): None for arm in arms(cfg)}
    ]


def config(name: str, overrides: list[str]) -> dict[str, Any]:
    cfg = composed(name, *overrides, "overrides=[]")
    OmegaConf.set_struct(cfg, False)
    del cfg["hydra"]
    container: Any = OmegaConf.to_container(cfg)
    return {key: container[key] for key in ("decoder", "ablation")} if is_decoding(name) else container


def runs_of(name: str, step: float = 0.02) -> list[RunRecord]:
    """Three seeds of every arm (twenty of the only one, one in a search), each arm worse by `step` than the one before
    it; decoders share their models.
    """
    runs = []
    listed = choices(name)
    seeds = 20 if len(listed) == 1 else 1 if is_search(composed(name)) else 3
    for number, overrides in enumerate(listed):
        arm = config(name, overrides)
        if name == "language_models":  # an evaluation's record names the decoder
            overrides = [f"decoder={decoder_name(OmegaConf.create(arm))}"]
        language = next((word for word in overrides if word.startswith("data.language")), "s")
        for seed in range(seeds):
            run = record("x=y", seed, 0.2 + step * number, speakers=language)
            model = f"model-{seed}/last.ckpt" if is_decoding(name) else f"{name}-{number}-{seed}/last.ckpt"
            runs.append(replace(run, config={**arm, "seed": seed}, overrides=overrides, model=model))
    return runs


@pytest.fixture(scope="module", params=NAMES)
def compared(request: pytest.FixtureRequest) -> tuple[str, Comparison]:
    return request.param, compare_runs(records(runs_of(request.param)), Options(), request.param)


def test_its_arms_are_compared_with_the_declared_baseline(compared: tuple[str, Comparison]) -> None:
    name, comparison = compared
    listed = choices(name)
    assert len(comparison.arms) == len(listed)
    declared = str(composed(name).ablation.get("baseline", ""))
    wanted = declared.split(",") if "=" in declared else [f"={declared}"] if declared else []
    baseline = next(arm for arm in comparison.arms if arm.name == comparison.baseline)
    assert all(any(word.endswith(part) for word in baseline.runs[0].overrides) for part in wanted)


def test_every_question_of_it_gets_a_verdict(compared: tuple[str, Comparison]) -> None:
    """One arm is described, and a search, with one run of each, decides nothing."""
    name, comparison = compared
    if len(comparison.arms) == 1:
        assert (comparison.answer, len(comparison.arms[0].runs)) == ([], 20)
        return
    asked = composed(name).ablation.get("contrasts")
    assert len(comparison.answer) >= (len(asked) if asked else len(comparison.arms) - 1)
    outcomes = {verdict.outcome for verdict in comparison.answer}
    assert outcomes == {"undecided"} if is_search(composed(name)) else "undecided" not in outcomes
    assert not [line for line in comparison.warnings if "not compared" in line or "ablation.expected" in line]


def test_hours_of_training_speech_get_a_verdict_on_test_sets_that_stay() -> None:
    """The training sets differ in their content, as hours do, and the test set is one: its utterances are pairs."""
    runs = [
        replace(
            run, data=parse(DataRecord, {"sets": {"train": {"sha256": f"{run.overrides}"}, "test": {"sha256": "same"}}})
        )
        for run in runs_of("training_size", step=0.1)
    ]
    comparison = compare_runs(records(runs), Options(), "training_size", DECLARED)
    assert comparison.baseline == "data.hours=0.5"
    assert [verdict.outcome for verdict in comparison.answer] == ["worse"] * 3
    assert not [line for line in comparison.warnings if "not compared" in line]


def test_language_models_are_tuned_on_a_validation_set_and_nothing_else_differs() -> None:
    """Ambroszczyk2019 §2.2 has none, one of words, one of letters; an arm without a model has nothing to tune."""
    given = ["models.words=w", "models.letters=l"]
    none, words, letters = (composed("language_models", *arm, *given) for arm in choices("language_models"))
    assert [decoder_name(arm) for arm in (none, words, letters)] == ["beam", "beam_lm", "beam_charlm"]
    assert [arm.tune.trials for arm in (none, words, letters)] == [0, 30, 30]
    assert {arm.tune.set for arm in (none, words, letters)} == {None}  # the first validation set
    assert (words.decoder.lm, letters.decoder.lm) == ("w", "l")
    for key in ("beam_width", "prune_beams", "prune_symbols"):
        assert none.decoder[key] == words.decoder[key] == letters.decoder[key]

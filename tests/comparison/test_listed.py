"""Arms of a list are compared with the full model, each by its own change and by nothing else."""

from typing import Any

import pytest

from asr_ablations.comparison.comparison import compare_runs
from asr_ablations.comparison.confounds import ConfoundedError
from asr_ablations.comparison.design import Options
from asr_ablations.comparison.result import Comparison
from asr_ablations.report.formats import markdown
from asr_ablations.runs.record import RunRecord
from tests.helpers.invented_records import record, records

ARMS: list[dict[str, Any]] = [{}, {"name": "− norm", "norm": "none"}, {"rnn": "gru", "width": 256}]
FULL = "norm=batch rnn=lstm width=128 batch=8"


def arm(name: str | None, rate: float, *changes: str, seeds: int = 3, arms: Any = ARMS, **more: Any) -> list[RunRecord]:
    keys = dict(word.split("=") for word in FULL.split()) | dict(word.split("=") for word in changes)
    words = " ".join(f"{key}={value}" for key, value in keys.items())
    runs = [record(words, seed, rate, arms=arms, **more) for seed in range(seeds)]
    for run in runs:
        run.config["arm"] = name
    return runs


def classic(**more: Any) -> list[RunRecord]:
    return [
        *arm("rnn=gru, width=256", 0.2, "rnn=gru", "width=256", **more),
        *arm("full", 0.2, **more),
        *arm("− norm", 0.5, "norm=none", **more),
    ]


def compared(runs: list[RunRecord], **options: Any) -> Comparison:
    return compare_runs(records(runs), Options(**options), "classic")


def test_every_arm_is_held_against_the_full_model_in_the_order_of_the_list() -> None:
    comparison = compared(classic())
    assert [arm.name for arm in comparison.arms] == ["full", "− norm", "rnn=gru, width=256"]
    assert comparison.baseline == "full"
    assert [(verdict.contrast.arm, verdict.contrast.baseline) for verdict in comparison.answer] == [
        ("− norm", "full"),
        ("rnn=gru, width=256", "full"),
    ]
    assert comparison.answer[0].contrast.difference == pytest.approx(0.3, abs=0.02)
    assert "| − norm | norm=none |" in markdown(comparison)
    assert "| full | nothing |" in markdown(comparison)


def test_another_baseline_is_declared_or_chosen() -> None:
    assert compared(classic(ablation={"baseline": "− norm"})).baseline == "− norm"
    assert compared(classic(), baseline="− norm").baseline == "− norm"
    assert any("all pairs of arms" in line for line in compared(classic(), baseline="− norm").warnings)


def test_a_further_key_is_refused_with_its_arm() -> None:
    """The width is in the list, but not in this arm."""
    runs = [*arm("full", 0.2), *arm("− norm", 0.3, "norm=none", "width=256")]
    with pytest.raises(
        ConfoundedError, match=r"^the arm − norm differs from full .* \(norm\):\n  width: 128, 256"
    ) as no:
        compared(runs)
    assert no.value.keys == {"width": ["128", "256"]}
    assert compared(runs, allow=["width"]).allowed == ["width"]


def test_the_runs_of_an_arm_may_not_differ_either() -> None:
    runs = [*arm("full", 0.2), *arm("full", 0.2, "batch=16"), *arm("− norm", 0.3, "norm=none")]
    with pytest.raises(ConfoundedError, match=r"^the runs of the arm full differ:\n  batch: 8, 16"):
        compared(runs)


def test_what_is_varied_beside_the_list_is_declared_and_crossed() -> None:
    runs = [
        run
        for batch in (8, 16)
        for run in (*arm("full", 0.2, f"batch={batch}"), *arm("− norm", 0.4, "norm=none", f"batch={batch}"))
    ]
    with pytest.raises(ConfoundedError, match="batch: 8, 16"):
        compared(runs)
    for run in runs:
        run.config["ablation"] = {"factor": "batch", "baseline": "full, batch=8"}
    comparison = compared(runs)
    assert comparison.factor == ["arm", "batch"]
    kinds = {verdict.contrast.question.kind for verdict in comparison.answer}
    assert kinds == {"main effect", "simple effect", "interaction"}


def test_a_run_of_no_arm_is_left_out_and_named() -> None:
    stranger = arm(None, 0.9, "rnn=rnn", seeds=1)
    comparison = compared([*classic(), *stranger])
    assert len(comparison.arms) == 3
    assert any(f"{stranger[0].folder.name}: no run of an arm" in line for line in comparison.warnings)


def test_an_arm_may_join_later() -> None:
    longer = [*ARMS, {"dropout": 0}]
    late = arm("dropout=0", 0.3, "dropout=0", arms=longer)
    for run in (runs := classic()):
        run.config["dropout"] = "0.1"
    assert [one.name for one in compared([*runs, *late]).arms][-1] == "dropout=0"

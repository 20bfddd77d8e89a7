"""How often the runs of a folder were looked at, and the test that this leaves."""

from dataclasses import replace
from pathlib import Path

import pytest

from asr_ablations.comparison import folders
from asr_ablations.comparison.folders import SweepsBeside, compare_folders, gather
from asr_ablations.runs.sweep_history import Look, evidence, looks, record_look
from asr_verdicts.comparison import compare
from asr_verdicts.design import Options
from asr_verdicts.evidence import UNDECLARED
from asr_verdicts.files import write_json
from asr_verdicts.record import Records
from tests.helpers.invented_records import record, records
from tests.helpers.planned import plan, run
from tests.helpers.run_folders import declare, write_run, write_sweep

RATES = {"rnn=lstm": 0.1, "rnn=gru": 0.3}


def procedure(sweep: Path, **options: object) -> str:
    (contrast,) = compare_folders([sweep], Options(**options)).verdicts  # type: ignore[arg-type]
    return contrast.procedure.name


def test_a_sweep_that_ran_as_declared_is_tested_once_and_undeclared_runs_at_any_time(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path, RATES)
    assert [procedure(sweep), procedure(sweep)] == ["fixed", "fixed"]
    (look,) = looks(sweep)
    assert (look.arms, look.complete, look.set) == ({"rnn=gru": 3, "rnn=lstm": 3}, True, "test")
    comparison = compare_folders([write_sweep(tmp_path / "undeclared", RATES, declared=False)], Options())
    assert comparison.evidence.procedure.name == "anytime"
    assert "was not declared before the runs" in comparison.evidence.reason


def test_a_look_at_a_part_costs_the_fixed_test_for_good(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path, RATES)
    late = next(path for path in sweep.glob("*seed-2*") if path.is_dir())
    (late / "status.json").rename(tmp_path / "kept")
    early = compare_folders([sweep], Options())
    assert early.evidence.procedure.name == "anytime"
    assert "1 of 6 declared runs have not ended" in early.evidence.reason
    (tmp_path / "kept").rename(late / "status.json")
    final = compare_folders([sweep], Options())
    assert final.evidence.procedure.name == "anytime"
    assert (final.evidence.look, final.evidence.reason) == (2, "there were earlier looks, at other runs (1)")


def test_runs_that_were_added_later_were_not_declared(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path, RATES)
    first = [path.parent for path in sorted(sweep.glob("*/status.json"))]
    assert procedure(sweep) == "fixed"
    more = [write_run(tmp_path, choice, "seed=3", rate=0.2, noise=99) for choice in RATES]
    declare(sweep, first, more)
    comparison = compare_folders([sweep], Options())
    assert comparison.evidence.procedure.name == "anytime"
    assert "runs were added after the first launch" in comparison.evidence.reason
    assert comparison.evidence.look == 2


def test_models_that_are_added_to_evaluations_after_a_look_are_a_further_look(tmp_path: Path) -> None:
    """Decoders of one model may be compared at any time; more models after a look are growing data."""
    folder = tmp_path / "run" / "evaluations"
    folder.mkdir(parents=True)
    runs = [
        replace(record("decoder=a", seed, 0.2), model=f"model-{seed}/last.ckpt", config={"seed": seed, "decoder": name})
        for seed in (0, 1) for name in ("a", "b")
    ]  # fmt: skip
    first = gather([folder], Records(runs[:2]))
    assert first.procedure.name == "fixed"
    seen = evidence({run.model for run in runs[:2]})
    look = Look("now", {"a": 1, "b": 1}, seen, first.complete, "a", "wer", "test", "fixed")
    assert record_look(folder, look) is None
    assert gather([folder], Records(runs[:2])).procedure.name == "fixed"
    assert gather([folder], Records(runs)).procedure.name == "anytime"


def test_a_planned_look_is_not_recorded_as_a_peek(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One with another question than the plan's is."""
    runs = [run(name, seed) for name in ("lstm", "gru") for seed in range(3)]
    monkeypatch.setattr(folders, "load", lambda _: records(runs))
    write_json(tmp_path / "sweep.json", {"plan": plan(["lstm", "gru"]).as_json()})
    assert compare_folders([tmp_path], Options()).evidence.procedure.name == "sequential"
    assert looks(tmp_path) == []
    assert compare_folders([tmp_path], Options(baseline="gru")).evidence.procedure.name == "anytime"
    assert [look.baseline for look in looks(tmp_path)] == ["rnn=gru"]


def test_sweeps_that_share_a_baseline_are_named(tmp_path: Path) -> None:
    for sweep in ("one", "two", "three"):
        (tmp_path / sweep).mkdir()
    (tmp_path / "one" / "rnn=lstm-0").mkdir()
    runs = records([record("rnn=lstm", seed, 0.2) for seed in range(2)])

    def warnings() -> list[str]:
        history = SweepsBeside(tmp_path / "one")
        shown = compare(runs, Options(), "one", replace(UNDECLARED, history=history)).warnings
        return [line for line in shown if "shared" in line]

    assert warnings() == []
    (tmp_path / "two" / "rnn=lstm-0").symlink_to(tmp_path / "one" / "rnn=lstm-0")
    (warning,) = warnings()
    assert "runs of the baseline all are shared with 1 other sweep (two)" in warning

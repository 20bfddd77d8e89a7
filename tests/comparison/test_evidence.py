"""Looks at a sweep, and the test that they leave."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from asr_ablations.comparison.comparison import compare
from asr_ablations.comparison.design import Options
from asr_ablations.comparison.evidence import gather
from asr_ablations.runs.reader import UnreadableFileError
from asr_ablations.runs.records import Records
from asr_ablations.runs.sweep_history import Look, looks, record_look
from tests.helpers.invented_records import record
from tests.helpers.run_folders import declare, write_run, write_sweep

RATES = {"rnn=lstm": 0.1, "rnn=gru": 0.3}


def procedure(sweep: Path, **options: object) -> str:
    (contrast,) = compare([sweep], Options(**options)).contrasts  # type: ignore[arg-type]
    return contrast.procedure


def test_a_sweep_that_ran_as_declared_is_tested_once(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path, RATES)
    assert [procedure(sweep), procedure(sweep)] == ["fixed", "fixed"]
    (look,) = looks(sweep)
    assert (look.arms, look.complete, look.set) == ({"gru": 3, "lstm": 3}, True, "test")


def test_undeclared_runs_get_the_interval_that_holds_at_any_time(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path, RATES, declared=False)
    comparison = compare([sweep], Options())
    assert comparison.evidence.procedure.name == "anytime"
    assert "was not declared before the runs" in comparison.evidence.reason


def test_a_look_at_a_part_costs_the_fixed_test_for_good(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path, RATES)
    late = next(path for path in sweep.glob("*seed-2*") if path.is_dir())
    (late / "status.json").rename(tmp_path / "kept")
    early = compare([sweep], Options())
    assert early.evidence.procedure.name == "anytime"
    assert "1 of 6 declared runs have not ended" in early.evidence.reason
    (tmp_path / "kept").rename(late / "status.json")
    final = compare([sweep], Options())
    assert final.evidence.procedure.name == "anytime"
    assert (final.evidence.look, final.evidence.reason) == (
        2,
        "there were earlier looks, at other runs (1)",
    )


def test_runs_that_were_added_later_were_not_declared(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path, RATES)
    first = [path.parent for path in sorted(sweep.glob("*/status.json"))]
    assert procedure(sweep) == "fixed"
    more = [write_run(tmp_path, choice, "seed=3", rate=0.2, noise=99) for choice in RATES]
    declare(sweep, first, more)
    comparison = compare([sweep], Options())
    assert comparison.evidence.procedure.name == "anytime"
    assert "runs were added after the first launch" in comparison.evidence.reason
    assert comparison.evidence.look == 2


def test_several_folders_are_no_declared_sweep(tmp_path: Path) -> None:
    first = write_sweep(tmp_path, {"rnn=lstm": 0.1}, sweep="a")
    second = write_sweep(tmp_path, {"rnn=gru": 0.3}, sweep="b")
    comparison = compare([first, second], Options())
    assert comparison.evidence.reason == "several folders were put together"


def test_a_folder_that_cannot_be_written_gives_a_warning(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path, RATES)
    shutil.rmtree(sweep / ".leases", ignore_errors=True)
    (sweep / ".leases").write_text("in the way")
    comparison = compare([sweep], Options())
    assert any(line.startswith("this look was not recorded: ") for line in comparison.warnings)
    assert looks(sweep) == []


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
    look = Look("now", {"a": 1, "b": 1}, first.runs, first.complete, "a", "wer", "test", "fixed")
    assert record_look(folder, look) is None
    assert gather([folder], Records(runs[:2])).procedure.name == "fixed"
    assert gather([folder], Records(runs)).procedure.name == "anytime"


def test_a_damaged_history_of_looks_is_not_read_as_none(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path, RATES)
    compare([sweep], Options())
    content = json.loads((sweep / "looks.json").read_text())
    assert len(content["looks"]) == 1
    (sweep / "looks.json").write_text("{")
    with pytest.raises(UnreadableFileError, match=r"looks\.json"):
        compare([sweep], Options())

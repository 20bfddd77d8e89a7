"""Short runs beside long ones: order, shrinkage, signs, and their intervals."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from asr_ablations.comparison.folders import compare_folders
from asr_ablations.sweep.plan import FEWER_EPOCHS
from asr_ablations.tools.files import REPOSITORY
from asr_verdicts.design import Options
from asr_verdicts.errors import UsageError
from asr_verdicts.statistics.intervals import Range
from publish.archive import unpack
from publish.short_runs import main, short_runs, short_runs_section, transfer, write_short_runs
from tests.helpers.comparison import comparison
from tests.helpers.run_folders import write_sweep

MEANS = {"base": 0.30, "a": 0.34, "b": 0.28, "c": 0.45, "d": 0.31}


def rates(factor: float, noise: float, seed: int, runs: int = 5) -> dict[str, np.ndarray]:
    """Runs of each arm, whose difference from the baseline is `factor` times that of MEANS."""
    random = np.random.default_rng(seed)
    base = MEANS["base"]
    return {arm: base + factor * (mean - base) + noise * random.standard_normal(runs) for arm, mean in MEANS.items()}


def test_halved_differences_in_the_same_order_are_seen_exactly_without_noise() -> None:
    found = transfer(rates(1.0, 0.0, 0), rates(0.5, 0.0, 0), "base")
    assert (found.tau.value, found.tau.low, found.tau.high) == pytest.approx((1.0, 1.0, 1.0))
    assert found.slope.value == pytest.approx(0.5)
    assert (found.kept, found.arms) == (4, 4)


def test_reversed_differences_have_the_opposite_order() -> None:
    found = transfer(rates(1.0, 0.0, 0), rates(-1.0, 0.0, 0), "base")
    assert found.tau.value == pytest.approx(-1.0)
    assert found.slope.value == pytest.approx(-1.0)
    assert found.kept == 0


def test_the_interval_of_the_slope_holds_the_truth_as_often_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 worlds with five seeds each."""
    monkeypatch.setattr("publish.short_runs.DRAWS", 1)  # those of τ take the time
    held = 0
    for world in range(1000):
        found = transfer(rates(1.0, 0.01, world), rates(0.6, 0.01, 10000 + world), "base").slope
        held += found.low <= 0.6 <= found.high
    assert held / 1000 == pytest.approx(0.95, abs=0.02)


def test_of_single_runs_the_slope_has_no_interval() -> None:
    found = transfer(rates(1.0, 0.01, 0, runs=1), rates(0.6, 0.01, 1, runs=1), "base").slope
    assert found.value == pytest.approx(0.6, abs=0.3)
    assert np.isnan([found.low, found.high]).all()


def test_two_sweeps_side_by_side(tmp_path: Path) -> None:
    short = comparison(tmp_path / "short")
    both = short_runs(short, replace(short, title="long"))
    assert both.transfer.slope.value == pytest.approx(1.0)
    assert both.transfer.kept == both.transfer.arms == len(both.verdicts) == 2
    assert both.reversed == []
    section = short_runs_section(both)
    assert [row[0] for row in section.rows] == list(both.verdicts)
    assert section.lines[0] == "2 of 2 differences have the same sign in both."
    markdown, numbers = write_short_runs(both, tmp_path / "written")
    assert "Kendall's τ between the orders of the arms is 1.00" in markdown.read_text()
    assert json.loads(numbers.read_text())["slope"]["value"] == both.transfer.slope.value
    lone = replace(both, transfer=replace(both.transfer, slope=Range(1.5, math.nan, math.nan)))  # of single runs
    _, numbers = write_short_runs(lone, tmp_path / "written")
    assert json.loads(numbers.read_text(), parse_constant=pytest.fail)["slope"] == {
        "value": 1.5, "low": None, "high": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"baseline": "rnn=gru"}, r"the baseline of the long runs=rnn=gru: expected rnn=lstm, that of the short ones"),
        ({"set": "test-other"}, "on test-clean, the long ones by wer on test-other; expected the same"),
        ({"verdicts": []}, "have no arm in common"),
    ],
)
def test_what_cannot_be_set_beside_is_one_line(change: dict[str, object], message: str, tmp_path: Path) -> None:
    short = comparison(tmp_path)
    with pytest.raises(UsageError, match=message):
        short_runs(short, replace(short, **change))  # type: ignore[arg-type]


def test_the_command_writes_both_files_next_to_the_short_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ablation = {"factor": "rnn", "baseline": "lstm"}
    short, long = (
        write_sweep(tmp_path, {"rnn=lstm": low, "rnn=gru": high}, seeds=3, ablation=ablation, sweep=name)
        for name, low, high in (("short", 0.3, 0.6), ("long", 0.1, 0.2))
    )
    assert main([str(short), str(long)]) == 0
    assert "1 of 1 differences have the same sign in both." in capsys.readouterr().out
    assert {path.name for path in (short / "comparison").iterdir()} == {"short_runs.md", "short_runs.json"}
    assert main([str(short), str(tmp_path / "absent")]) == 2


@pytest.mark.slow
def test_the_page_and_the_plan_say_what_the_records_show(tmp_path: Path) -> None:
    records = REPOSITORY / "sweeps" / "records"
    unpack([records / "short_runs_at_2.tar.xz", records / "short_runs.tar.xz"], tmp_path)
    short, long = (compare_folders([tmp_path / name], Options()) for name in ("short_runs_at_2", "short_runs"))
    both = short_runs(short, long)
    markdown, _ = write_short_runs(both, tmp_path)
    assert markdown.read_text(encoding="utf-8") in (REPOSITORY / "docs" / "short_runs.md").read_text(encoding="utf-8")
    again = sum(before.outcome == after.outcome for before, after in both.shown)
    assert f"of {len(both.shown)} verdicts after a third of them {again} came again" in FEWER_EPOCHS
    assert {arm.runs[0].config["max_epochs"] for arm in short.arms} == {2}
    assert {arm.runs[0].config["max_epochs"] for arm in long.arms} == {6}

"""Seconds per epoch of an arm, and their ratio to the baseline's."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from asr_ablations.comparison.arms import Arm
from asr_ablations.comparison.training_times import COLUMN, epoch_times, steady_seconds
from asr_ablations.runs.record import RunRecord


def run(seconds: list[float], seed: int = 0) -> RunRecord:
    """A record whose rows of epochs stand between others."""
    rows: list[dict[str, float | None]] = [{"step": 1.0, COLUMN: None}]
    for value in seconds:
        rows += [{"validation/dev/wer": 0.5}, {COLUMN: value}]
    return RunRecord(Path("run"), {"seed": seed}, [], metrics=rows)


SLOW = Arm("32", [run([200, 100, 104, 96], 0), run([190, 111, 109, 110], 1), run([210, 90, 92, 88], 2)])
FAST = Arm("16", [run([150, 50, 52, 48], 0), run([150, 55, 56, 54], 1), run([150, 61, 59, 60], 2)])


def test_the_first_epoch_stands_apart() -> None:
    (times, _) = epoch_times([SLOW, FAST], "32")
    assert (times.arm, times.runs, times.epochs, times.first) == ("32", 3, 9, 200)
    assert times.mean == pytest.approx(100)  # of 100, 110 and 90
    assert times.over_runs == pytest.approx(10)


def test_the_deviation_over_epochs_is_within_runs() -> None:
    """The standard deviations of 100, 104, 96; 111, 109, 110; and 90, 92, 88 are 4, 1 and 2. Pooled that is
    √((16 + 1 + 4) / 3), whatever the differences between seeds.
    """
    (times, _) = epoch_times([SLOW, FAST], "32")
    assert times.over_epochs == pytest.approx(7**0.5)


def test_the_ratio_is_that_of_geometric_means_with_welchs_interval() -> None:
    (itself, times) = epoch_times([SLOW, FAST], "32")
    assert itself.ratio is not None
    assert tuple(itself.ratio) == (1.0, None, None)
    fast, slow = np.log([50, 55, 60]), np.log([100, 110, 90])
    interval = stats.ttest_ind(fast, slow, equal_var=False).confidence_interval()
    assert times.ratio is not None
    assert times.ratio.value == pytest.approx(np.exp(fast.mean() - slow.mean()))
    assert (times.ratio.low, times.ratio.high) == (
        pytest.approx(np.exp(interval.low)), pytest.approx(np.exp(interval.high)),
    )  # fmt: skip


def test_a_single_run_has_no_interval_and_a_single_epoch_no_deviation() -> None:
    (slow, fast) = epoch_times([Arm("32", [run([9])]), Arm("16", [run([3])])], "32")
    assert (slow.first, slow.mean, slow.over_epochs, slow.over_runs) == (None, 9, None, None)
    assert fast.ratio is not None
    assert (fast.ratio.value, fast.ratio.low, fast.ratio.high) == (pytest.approx(1 / 3), None, None)


def test_an_arm_without_times_has_no_line() -> None:
    assert epoch_times([Arm("a", [run([])])], "a") == []
    assert steady_seconds(run([])) is None
    (times,) = epoch_times([Arm("a", [run([])]), Arm("b", [run([5, 4])])], "a")
    assert (times.arm, times.ratio) == ("b", None)

"""Short runs beside long ones: order, shrinkage, signs, and their intervals."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from asr_ablations.comparison.folders import compare_folders
from asr_ablations.sweep.plan import FEWER_EPOCHS
from asr_verdicts.design import Options
from asr_verdicts.errors import UsageError
from publish.archive import unpack
from publish.short_runs import compare_lengths, measure_slope, measure_tau
from tests.helpers.command import REPOSITORY
from tests.helpers.comparison import comparison

MEANS = {"base": 0.30, "a": 0.34, "b": 0.28, "c": 0.45, "d": 0.31}


def rates(factor: float, noise: float, seed: int, runs: int = 5) -> list[np.ndarray]:
    """Runs of each arm, whose difference from the baseline is `factor` times that of MEANS."""
    random = np.random.default_rng(seed)
    base = MEANS["base"]
    return [base + factor * (mean - base) + noise * random.standard_normal(runs) for mean in MEANS.values()]


@pytest.mark.parametrize(("factor", "tau"), [(0.5, 1.0), (-1.0, -1.0)])
def test_differences_in_the_same_or_the_opposite_order_are_seen_exactly_without_noise(
    factor: float, tau: float
) -> None:
    both = rates(1.0, 0.0, 0), rates(factor, 0.0, 0)
    order = measure_tau(*both)
    assert (order.value, order.low, order.high) == pytest.approx((tau, tau, tau))
    assert measure_slope(*both).value == pytest.approx(factor)


def test_the_interval_of_the_slope_holds_the_truth_as_often_as_it_says() -> None:
    """1,000 worlds with five seeds each."""
    held = 0
    for world in range(1000):
        slope = measure_slope(rates(1.0, 0.01, world), rates(0.6, 0.01, 10000 + world))
        held += slope.low <= 0.6 <= slope.high
    assert held / 1000 == pytest.approx(0.95, abs=0.02)


def test_of_single_runs_the_slope_has_no_interval() -> None:
    slope = measure_slope(rates(1.0, 0.01, 0, runs=1), rates(0.6, 0.01, 1, runs=1))
    assert slope.value == pytest.approx(0.6, abs=0.3)
    assert np.isnan([slope.low, slope.high]).all()


def test_two_sweeps_side_by_side(tmp_path: Path) -> None:
    short = comparison(tmp_path / "short")
    text = compare_lengths(short, replace(short, title="long"))
    arms = [verdict.arm for verdict in short.answer]
    assert [line.split(" | ")[0] for line in text.splitlines()[2 : 2 + len(arms)]] == [f"| {arm}" for arm in arms]
    for line in (
        "2 of 2 differences have the same sign in both.", "Kendall's τ between the orders of the arms is 1.00 (",
        "A difference of 1 in short runs is 1.00 (", "; none is reversed.",
    ):  # fmt: skip
        assert line in text, text
    both = "the short runs have the {}, the long ones {}; expected the same"
    for changes, message in (
        ({"design": replace(short.design, baseline=short.arms[1])}, both.format("baseline rnn=lstm", "rnn=gru")),
        ({"design": replace(short.design, primary="test-other")}, both.format("set test-clean", "test-other")),
        ({"verdicts": []}, "have no arm in common"),
    ):
        with pytest.raises(UsageError, match=message):
            compare_lengths(short, replace(short, **changes))  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_page_and_the_plan_say_what_the_records_show(tmp_path: Path) -> None:
    records = REPOSITORY / "sweeps" / "records"
    unpack([records / "short_runs_at_2.tar.xz", records / "short_runs.tar.xz"], tmp_path)
    short, long = (compare_folders([tmp_path / name], Options()) for name in ("short_runs_at_2", "short_runs"))
    text = compare_lengths(short, long)
    assert f"{text}\n" in (REPOSITORY / "docs" / "short_runs.md").read_text(encoding="utf-8")
    counts = re.search(r"Of (\d+) arms that short runs call better or worse, long runs call (\d+) the same", text)
    assert counts
    assert f"of {counts[1]} verdicts after a third of the epochs, {counts[2]} were the same" in FEWER_EPOCHS
    assert {arm.runs[0].config["max_epochs"] for arm in short.arms} == {2}
    assert {arm.runs[0].config["max_epochs"] for arm in long.arms} == {6}

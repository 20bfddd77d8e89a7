"""A contrast as it is drawn: by the verdict's own test, never by the interval over speakers alone."""

import math
from dataclasses import replace

import pytest

from asr_ablations.comparison.result import Contrast
from asr_ablations.comparison.verdict import verdict
from asr_ablations.report.contrasts import contrast_row, drawn_interval
from asr_ablations.statistics.interval import Interval


def contrast(gap: float, p: float | None, half_width: float | None) -> Contrast:
    """A contrast whose interval over speakers is narrow, and whose matched pairs are beyond doubt."""
    return Contrast(
        arm="a", baseline="b", set="test", metric="wer", arm_mean=0.2 + gap, baseline_mean=0.2, seeds=(3, 3),
        difference=gap, speakers=Interval(gap, 0.001, 0.0005, 9),
        interval=None if half_width is None else Interval(gap, half_width, half_width / 4, 2),
        p_pairs=1e-9, p_pairs_holm=1e-9, p=p, p_holm=p,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("gap", "p", "expected"),
    [(0.02, 0.01, "worse"), (-0.02, 0.01, "better"), (0.02, 0.2, "no difference shown"), (0.02, None, "undecided")],
)
def test_the_outcome_is_the_corrected_tests(gap: float, p: float | None, expected: str) -> None:
    assert verdict(contrast(gap, p, None if p is None else 0.01)).outcome == expected


def test_the_interval_is_the_verdicts_and_with_a_single_seed_that_over_speakers() -> None:
    assert drawn_interval(contrast(0.02, 0.01, 0.015)) == pytest.approx((0.005, 0.035))
    assert drawn_interval(contrast(0.02, None, None)) == pytest.approx((0.019, 0.021))


def test_a_contrast_without_any_interval_has_no_ends() -> None:
    bare = replace(contrast(0.02, None, None), speakers=None)
    assert all(map(math.isnan, drawn_interval(bare)))
    row = contrast_row(verdict(bare))
    assert math.isnan(row["low"])
    assert row["half_width"] is None

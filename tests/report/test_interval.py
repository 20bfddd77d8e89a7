"""A difference as it is drawn: by the verdict's own test, never by the interval over speakers alone."""

import pytest

from asr_ablations.comparison.result import Difference
from asr_ablations.report.interval import high, low, outcome


def difference(gap: float, p: float | None, half_width: float | None) -> Difference:
    pairs = (gap - 0.001, gap + 0.001, 1e-9, 1e-9, None, None, "")
    return Difference("a", "test", "wer", 0.2, 0.2 + gap, gap, *pairs, p=p, p_holm=p, half_width=half_width)


@pytest.mark.parametrize(
    ("gap", "p", "expected"),
    [(0.02, 0.01, "worse"), (-0.02, 0.01, "better"), (0.02, 0.2, "no difference shown"), (0.02, None, "undecided")],
)
def test_the_outcome_is_the_corrected_tests(gap: float, p: float | None, expected: str) -> None:
    assert outcome(difference(gap, p, None if p is None else 0.01)) == expected


def test_the_interval_is_the_verdicts_and_with_one_seed_that_over_speakers() -> None:
    several, one = difference(0.02, 0.01, 0.015), difference(0.02, None, None)
    assert (low(several), high(several)) == pytest.approx((0.005, 0.035))
    assert (low(one), high(one)) == pytest.approx((0.019, 0.021))

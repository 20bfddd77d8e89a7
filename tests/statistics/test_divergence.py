"""Fisher's exact test by hand."""

from math import comb

import pytest

from asr_ablations.statistics.distributions import fisher


def test_the_lady_tasting_tea() -> None:
    """Fisher (1935, ch. 2): three of four right has a one-sided p of 17 / 70; the table is symmetric."""
    assert fisher(3, 4, 1, 4) == pytest.approx(34 / 70)
    assert fisher(4, 4, 0, 4) == pytest.approx(2 / comb(8, 4))


def test_nothing_diverged() -> None:
    assert fisher(0, 5, 0, 5) == 1


def test_two_of_eight_are_no_evidence() -> None:
    """Both in one arm: 2 · C(8, 2) / C(16, 2)."""
    assert fisher(2, 8, 0, 8) == pytest.approx(2 * comb(8, 2) / comb(16, 2))

"""Welch's standard error against scipy's test, and Holm's correction against its definition."""

import numpy as np
import pytest
from scipy import stats

from asr_ablations.statistics.sample import holm, mean_and_deviation, welch_error


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("counts", [(2, 2), (3, 3), (2, 5), (10, 4)])
def test_welch_is_scipys(seed: int, counts: tuple[int, int]) -> None:
    generator = np.random.default_rng(seed)
    first, second = (generator.normal(0.1, 0.01 * (i + 1), n) for i, n in enumerate(counts))
    error, degrees = welch_error(first.tolist(), second.tolist())
    expected = stats.ttest_ind(first, second, equal_var=False)
    p = 2 * stats.t.sf(abs(first.mean() - second.mean()) / error, degrees)
    assert p == pytest.approx(expected.pvalue)


def test_equal_counts_of_a_small_test_set_are_no_proof() -> None:
    """Two seeds per arm with 7 and 7, 8 and 8 errors in 100 words: equal by chance, not by a variance of zero."""
    error, degrees = welch_error([0.07, 0.07], [0.08, 0.08], grain=0.01)
    assert error == pytest.approx(0.01 / np.sqrt(12))
    assert 2 * stats.t.sf(0.01 / error, degrees) > 0.05


def test_no_noise_at_all() -> None:
    assert welch_error([1.0, 1.0], [1.0, 1.0]) == (0.0, 2.0)


def by_definition(ps: list[float]) -> list[float]:
    """Holm's adjusted p of each: the largest (m − j + 1) p of all that are not larger than it (Wright 1992)."""
    ranked = sorted(ps)
    steps = {p: max(min(1, (len(ps) - j) * q) for j, q in enumerate(ranked) if q <= p) for p in ps}
    return [steps[p] for p in ps]


def test_holm_by_hand() -> None:
    """Worked: 0.01 × 4, 0.02 × 3, then never below the one before."""
    assert holm([0.01, 0.04, 0.03, 0.02]) == pytest.approx([0.04, 0.06, 0.06, 0.06])
    assert holm([]) == []
    assert holm([0.3]) == [0.3]


@pytest.mark.parametrize("seed", range(20))
def test_holm_is_its_definition(seed: int) -> None:
    ps = np.random.default_rng(seed).uniform(0, 0.3, 7).tolist()
    assert holm(ps) == pytest.approx(by_definition(ps))


def test_deviation_needs_two() -> None:
    assert mean_and_deviation([2.0]) == (2.0, None)
    assert mean_and_deviation([1.0, 3.0]) == pytest.approx((2.0, np.sqrt(2)))

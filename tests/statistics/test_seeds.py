"""Tests over seeds against scipy's own and against simulation."""

import numpy as np
import pytest
from scipy import stats

from asr_ablations.statistics.seeds import detectable, holm, mean_and_deviation, pooled_variance, t_test, welch_error


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("counts", [(2, 2), (3, 3), (2, 5), (10, 4)])
def test_welch_is_scipys(seed: int, counts: tuple[int, int]) -> None:
    generator = np.random.default_rng(seed)
    first, second = (generator.normal(0.1, 0.01 * (i + 1), n) for i, n in enumerate(counts))
    error, degrees = welch_error(first.tolist(), second.tolist())
    expected = stats.ttest_ind(first, second, equal_var=False)
    assert t_test(first.mean() - second.mean(), error, degrees) == pytest.approx(expected.pvalue)


@pytest.mark.parametrize("counts", [(3, 3), (3, 3, 3), (2, 5, 1, 4)])
def test_pooled_variance_is_the_error_of_scipys_analysis_of_variance(counts: tuple[int, ...]) -> None:
    """F is the mean square between groups over that within them."""
    generator = np.random.default_rng(len(counts))
    groups = [generator.normal(0.1 * i, 0.01, n).tolist() for i, n in enumerate(counts)]
    grand = np.mean(np.concatenate(groups))
    between = sum(len(group) * (np.mean(group) - grand) ** 2 for group in groups) / (len(groups) - 1)
    variance, degrees = pooled_variance(groups)
    assert between / variance == pytest.approx(stats.f_oneway(*groups).statistic)
    assert degrees == sum(counts) - len(counts)


def test_nothing_to_pool() -> None:
    variance, degrees = pooled_variance([[0.1], [0.2]])
    assert np.isnan(variance)
    assert degrees == 0
    assert pooled_variance([[0.1, 0.1]], grain=0.01) == (pytest.approx(0.01**2 / 12), 1)


def alarms(deviations: tuple[float, ...], effect: float = 0.0) -> tuple[float, float]:
    """How often Welch's test and the pooled test call the second arm different from the first; three seeds per arm."""
    generator = np.random.default_rng(len(deviations))
    counts = np.zeros(2)
    for _ in range(TRIALS):
        arms = [generator.normal(0, deviation, 3).tolist() for deviation in deviations]
        difference = np.mean(arms[1]) + effect - np.mean(arms[0])
        variance, degrees = pooled_variance(arms)
        tests = (welch_error(arms[1], arms[0]), (np.sqrt(variance * 2 / 3), degrees))
        counts += [t_test(difference, *test) <= 0.05 for test in tests]
    welch, pooled = counts / TRIALS
    return welch, pooled


TRIALS = 3000
"""An alarm rate of 5 % is measured with a standard error of 0.4 points."""


@pytest.mark.parametrize("deviations", [(1, 1, 1), (1, 3, 1), (3, 1, 1), (1, 1, 1, 1, 1), (1, 3, 1, 1, 1)])
def test_welch_keeps_its_level_where_pooling_does_not(deviations: tuple[float, ...]) -> None:
    """Why verdicts rest on Welch: the figures of pooled_variance's docstring."""
    welch, pooled = alarms(deviations)
    assert welch <= 0.06
    if 3 in deviations:
        assert pooled > 0.09
    else:
        assert pooled == pytest.approx(0.05, abs=0.01)


def test_what_pooling_would_gain() -> None:
    welch, pooled = alarms((1, 1, 1), effect=4)
    assert (welch, pooled) == (pytest.approx(0.88, abs=0.02), pytest.approx(0.98, abs=0.02))


def test_equal_counts_of_a_small_test_set_are_no_proof() -> None:
    """Two seeds per arm with 7 and 7, 8 and 8 errors in 100 words: equal by chance, not by a variance of zero."""
    error, degrees = welch_error([0.07, 0.07], [0.08, 0.08], grain=0.01)
    assert error == pytest.approx(0.01 / np.sqrt(12))
    assert t_test(0.01, error, degrees) > 0.05


def test_no_noise_at_all() -> None:
    assert welch_error([1.0, 1.0], [1.0, 1.0]) == (0.0, 2.0)
    assert t_test(0.0, 0.0, 2) == 1
    assert t_test(0.1, 0.0, 2) == 0


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


def test_detectable_is_cohens() -> None:
    """Cohen (1988), table 2.4.1: at power 0.80 and two-sided 0.05, d = 0.50 takes 64 per group, d = 0.80 takes 26."""
    for count, effect in ((64, 0.50), (26, 0.80)):
        assert detectable(np.sqrt(2 / count), 2 * count - 2) == pytest.approx(effect, abs=0.01)


@pytest.mark.parametrize("degrees", [1, 2, 4, 18])
def test_detectable_is_found_in_four_cases_of_five(degrees: int) -> None:
    generator = np.random.default_rng(degrees)
    errors = np.sqrt(generator.chisquare(degrees, 100_000) / degrees)
    differences = generator.normal(detectable(1.0, degrees), 1, 100_000)
    critical = stats.t.ppf(0.975, degrees)
    assert np.mean(np.abs(differences) / errors > critical) == pytest.approx(0.8, abs=0.01)


def test_deviation_needs_two() -> None:
    assert mean_and_deviation([2.0]) == (2.0, None)
    assert mean_and_deviation([1.0, 3.0]) == pytest.approx((2.0, np.sqrt(2)))

"""Tails and quantiles are those of scipy.stats, to the last bit."""

import numpy as np
import pytest
from scipy import stats

from asr_ablations.statistics.distributions import chi_square_quantile, normal_above, normal_bound, t_above, t_bound

DEGREES = [0.3, 1, 1.5, 2, 3.7, 10, 100, 1e6, np.inf]
PROBABILITIES = [1e-300, 1e-14, 0.001, 0.025, 0.2, 0.5, 0.9]


@pytest.mark.parametrize("degrees", DEGREES)
def test_students_t(degrees: float) -> None:
    values = np.array([-np.inf, -50, -1, 0, 0.3, 2, 40, 1e5, np.inf])
    np.testing.assert_array_equal(t_above(values, degrees), stats.t.sf(values, degrees))
    bounds = [t_bound(probability, degrees) for probability in PROBABILITIES]
    np.testing.assert_array_equal(bounds, stats.t.isf(PROBABILITIES, degrees))


def test_the_normal() -> None:
    values = np.linspace(-40, 40, 999)
    np.testing.assert_array_equal(normal_above(values), stats.norm.sf(values))
    np.testing.assert_array_equal([normal_bound(one) for one in PROBABILITIES], stats.norm.isf(PROBABILITIES))


@pytest.mark.parametrize("degrees", DEGREES[:-1])
def test_chi_square(degrees: float) -> None:
    shares = (np.arange(2000) + 0.5) / 2000
    np.testing.assert_array_equal(chi_square_quantile(shares, degrees), stats.chi2.ppf(shares, degrees))

"""Ratios of times against scipy on the scale of logarithms."""

import numpy as np
import pytest
from scipy import stats

from asr_ablations.statistics.time_to_accuracy import ratio


@pytest.mark.parametrize("level", [0.05, 0.2])
def test_the_interval_is_welchs_of_the_logarithms(level: float) -> None:
    generator = np.random.default_rng(0)
    arm, baseline = generator.lognormal(3, 0.1, 4), generator.lognormal(2, 0.3, 6)
    expected = stats.ttest_ind(np.log(arm), np.log(baseline), equal_var=False).confidence_interval(1 - level)
    measured = ratio(arm.tolist(), baseline.tolist(), level)
    assert measured is not None
    assert measured.value == pytest.approx(stats.gmean(arm) / stats.gmean(baseline))
    assert (measured.low, measured.high) == pytest.approx((np.exp(expected.low), np.exp(expected.high)))


def test_twice_as_long_against_itself() -> None:
    forwards, backwards = ratio([20, 22, 24], [10, 11, 12]), ratio([10, 11, 12], [20, 22, 24])
    assert forwards is not None
    assert backwards is not None
    assert forwards.value == pytest.approx(2)
    assert (backwards.low, backwards.high) == pytest.approx((1 / forwards.high, 1 / forwards.low))


def test_no_noise_no_interval() -> None:
    assert ratio([1.0], [2.0, 3.0]) is None
    assert ratio([1.0, 1.0], [2.0, 2.0]) is None
    with pytest.raises(ValueError, match="above 0, not 0"):
        ratio([0.0, 1.0], [2.0, 3.0])

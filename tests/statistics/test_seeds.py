"""Welch's standard error against scipy's test."""

import numpy as np
import pytest
from scipy import stats

from asr_ablations.statistics.estimate import Part, over_seeds, run_noise
from asr_ablations.statistics.sample import mean_and_deviation


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("counts", [(2, 2), (3, 3), (2, 5), (10, 4)])
def test_welch_is_scipys(seed: int, counts: tuple[int, int]) -> None:
    generator = np.random.default_rng(seed)
    first, second = (generator.normal(0.1, 0.01 * (i + 1), n) for i, n in enumerate(counts))
    noise = over_seeds([run_noise(values.tolist()) for values in (first, second)])
    expected = stats.ttest_ind(first, second, equal_var=False)
    p = 2 * stats.t.sf(abs(first.mean() - second.mean()) / noise.standard_error, noise.degrees)
    assert p == pytest.approx(expected.pvalue)


def test_no_noise_at_all() -> None:
    assert over_seeds([run_noise([1.0, 1.0])] * 2) == Part(0.0, 2)


def test_deviation_needs_two() -> None:
    assert mean_and_deviation([2.0]) == (2.0, None)
    assert mean_and_deviation([1.0, 3.0]) == pytest.approx((2.0, np.sqrt(2)))

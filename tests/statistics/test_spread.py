"""Standard deviations and correlations against published tables, scipy and invented truth."""

import numpy as np
import pytest
from scipy import stats

from asr_ablations.statistics.sample import Correlation, Sample, describe, equal_seed_correlation, spearman
from tests.helpers.worlds import World


def test_the_interval_of_a_deviation_is_chi_squares() -> None:
    """A table of chi-square: 2.700 and 19.023 for nine degrees of freedom."""
    rates = np.random.default_rng(0).normal(0.2, 0.02, 10)
    spread = describe(Sample.of_rates(rates))
    assert spread.deviation is not None
    assert spread.deviation.value == pytest.approx(rates.std(ddof=1))
    assert spread.deviation.low == pytest.approx(rates.std(ddof=1) * np.sqrt(9 / 19.023), rel=1e-4)
    assert spread.deviation.high == pytest.approx(rates.std(ddof=1) * np.sqrt(9 / 2.700), rel=1e-3)
    assert (spread.runs, spread.best, spread.worst) == (10, rates.min(), rates.max())
    assert spread.mean == pytest.approx(rates.mean())
    assert spread.models is None


def test_a_single_run_has_no_deviation() -> None:
    (sample,) = World().sweep(np.random.default_rng(0), 1, 1)
    assert (describe(sample).deviation, describe(sample).models) == (None, None)


@pytest.mark.parametrize("words", [20, 100, 1000])
def test_the_deviation_of_the_models_is_found_whatever_the_test_set(words: int) -> None:
    """Models of sd 2 points: seen with 20 words of each of 10 speakers, it looks like 3.9."""
    world = World(seeds=(0.02,), speakers=10, words=words, run_speaker=0.03)
    generator = np.random.default_rng(0)
    spreads = [describe(world.sweep(generator, 1, 100)[0]) for _ in range(20)]
    squares = [spread.models**2 for spread in spreads if spread.models is not None]
    assert np.sqrt(np.mean(squares)) == pytest.approx(0.02, rel=0.1)
    if words == 20:
        assert np.mean([spread.deviation.value for spread in spreads if spread.deviation]) == pytest.approx(
            0.039, abs=0.002
        )


def test_equal_models_have_no_deviation_of_their_own() -> None:
    world = World(seeds=(0.0,), speakers=50)
    generator = np.random.default_rng(0)
    spreads = [describe(world.sweep(generator, 1, 5)[0]) for _ in range(50)]
    assert np.mean([spread.models == 0 for spread in spreads]) > 0.4


@pytest.mark.parametrize("seed", range(5))
def test_spearman_is_scipys(seed: int) -> None:
    x, y = np.random.default_rng(seed).normal(size=(2, 12)).round(1).tolist()
    measured = spearman(x, y)
    assert measured is not None
    assert measured.value == pytest.approx(stats.spearmanr(x, y).statistic)
    assert measured.low < measured.value < measured.high


def test_fishers_interval_of_pearson_is_scipys() -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 12))
    measured = equal_seed_correlation(dict(enumerate(x)), dict(enumerate(y)) | {99: 5.0})
    expected = stats.pearsonr(x, y)
    interval = expected.confidence_interval(0.95)
    assert measured == Correlation(
        pytest.approx(expected.statistic), pytest.approx(interval.low), pytest.approx(interval.high), 12
    )


def test_too_few_or_constant_values_say_nothing() -> None:
    assert spearman([1, 2, 3], [1, 2, 3]) is None
    assert spearman([1, 1, 1, 1], [1, 2, 3, 4]) is None
    assert equal_seed_correlation({0: 0.1, 1: 0.2}, {1: 0.1, 2: 0.2}) is None
    assert spearman([1, 2, 3, 4], [10, 20, 30, 40]) == Correlation(1.0, 1.0, 1.0, 4)

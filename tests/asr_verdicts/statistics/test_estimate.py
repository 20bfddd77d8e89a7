"""Estimates of a contrast, their spread, their false alarms in simulated sweeps, and the matched pairs test of NIST."""

import random
import re
from math import sqrt

import numpy as np
import pytest
from scipy import stats

from asr_ablations.comparison.derived_tables import Correlation, spearman
from asr_verdicts.statistics.estimate import Estimate, contrast_estimate, paired_estimate, upper
from asr_verdicts.statistics.intervals import shared_variance, speaker_interval
from asr_verdicts.statistics.mapsswe import BUFFER, Places, error_places, matched_pairs, segment_differences
from asr_verdicts.statistics.procedures import FixedLength
from asr_verdicts.statistics.sample import Sample, describe
from tests.helpers.false_alarms import DESIGNS, World, alarms, finds
from tests.helpers.support import shared_data


def rates(seed: int, runs: int, deviation: float = 0.01) -> Sample:
    return Sample.of_rates(np.random.default_rng(seed).normal(0.2, deviation, runs))


def estimate(*terms: tuple[float, Sample], trimmed: bool = False) -> Estimate:
    measured = contrast_estimate(terms, trimmed=trimmed)
    assert measured is not None
    return measured


def paired(arm: Sample, baseline: Sample, replicates: bool = False) -> Estimate:
    measured = paired_estimate([(1.0, arm), (-1.0, baseline)], replicates=replicates)
    assert measured is not None
    return measured


def test_an_interaction_is_its_contrast_by_hand() -> None:
    """Satterthwaite (1946): ν = (Σ c² v / n)² / Σ (c² v / n)² / (n − 1), of the upper ends of the variances."""
    weights, arms = (1, -1, -1, 1), [rates(seed, runs) for seed, runs in enumerate((3, 4, 5, 6))]
    measured = estimate(*zip(weights, arms, strict=True))
    parts = [arm.rates.var(ddof=1) / len(arm.rates) for arm in arms]
    assert measured.standard_error == pytest.approx(np.sqrt(sum(parts)))
    high = [upper(v, n) for v, n in zip(parts, (2, 3, 4, 5), strict=True)]
    assert measured.degrees == pytest.approx(
        sum(high) ** 2 / sum(v**2 / n for v, n in zip(high, (2, 3, 4, 5), strict=True))
    )
    assert measured.value == pytest.approx(sum(c * arm.rates.mean() for c, arm in zip(weights, arms, strict=True)))
    assert measured.information == pytest.approx(1 / (1 / 3 + 1 / 4 + 1 / 5 + 1 / 6))
    assert measured.models == 3


def test_decoders_of_the_same_models_show_what_independent_arms_would_hide() -> None:
    """Six models between 20 and 60 % WER; a decoder gains about 2 points on each of them."""
    generator, words = np.random.default_rng(0), np.full(40, 25.0)
    greedy = generator.poisson(25 * np.linspace(0.2, 0.6, 6)[:, None], (6, 40)).astype(float)
    beam = np.maximum(0, greedy - generator.binomial(1, 0.5, greedy.shape))
    speakers = np.arange(40).astype(str)
    arm, baseline = (Sample.of_errors(errors, words, speakers) for errors in (beam, greedy))
    assert FixedLength().p(paired(arm, baseline)) < 0.001
    assert FixedLength().p(estimate((1, arm), (-1, baseline))) > 0.5
    assert paired(arm, baseline).value == pytest.approx(-0.02, abs=0.003)


def test_one_model_has_speakers_alone() -> None:
    a, b = World(speakers=7).sweep(np.random.default_rng(0), 2, 1)
    measured = paired(a, b)
    assert a.errors is not None
    assert b.errors is not None
    assert a.totals is not None
    assert a.speakers is not None
    expected = speaker_interval((a.errors - b.errors)[0], a.totals, a.speakers)
    assert (measured.standard_error, measured.degrees) == (expected.standard_error, 6)
    assert (measured.models, measured.over_seeds, measured.arms) == (1, None, ())
    assert paired_estimate([(1.0, Sample.of_rates(a.rates)), (-1.0, Sample.of_rates(b.rates))]) is None
    assert paired_estimate([(1.0, a), (-1.0, b)], replicates=True) is None


def test_the_error_is_that_of_a_balanced_mixed_model() -> None:
    """Arms fixed, seeds and speakers crossed: SE² = 2 (MS_seeds + MS_arm×speaker − MS_residual) / (n K), from the sums
    of squares (Kutner et al. 2004, ch. 27), for speakers who speak equally much. The bootstrap equals it up to its
    replicates, and `shared` up to (K − 1) / K, since a run's own rate is subtracted.
    """
    generator, runs, speakers = np.random.default_rng(0), 6, 30
    y = 20 + 2 * generator.standard_normal((2, runs, 1)) + generator.standard_normal((2, 1, speakers))
    y = y + generator.standard_normal((2, runs, speakers))
    a, b = (Sample.of_errors(arm, np.full(speakers, 100.0), np.arange(speakers).astype(str)) for arm in y)
    by_run, by_speaker, mean = y.mean(2), y.mean(1), y.mean((1, 2))
    seeds = speakers * ((by_run - mean[:, None]) ** 2).sum() / (2 * (runs - 1))
    gain = by_speaker[0] - by_speaker[1]
    arm_speaker = runs * ((gain - gain.mean()) ** 2).sum() / 2 / (speakers - 1)
    rest = y - by_run[:, :, None] - by_speaker[:, None] + mean[:, None, None]
    residual = (rest**2).sum() / (2 * (runs - 1) * (speakers - 1))
    expected = np.sqrt(2 * (seeds + arm_speaker - residual) / (runs * speakers)) / 100
    assert estimate((1, a), (-1, b)).standard_error == pytest.approx(expected, rel=0.01)


def test_the_interval_of_a_deviation_is_chi_squares() -> None:
    """A table of chi-square: 2.700 and 19.023 for nine degrees of freedom."""
    rates = np.random.default_rng(0).normal(0.2, 0.02, 10)
    spread = describe(Sample.of_rates(rates))
    assert spread.deviation.value == pytest.approx(rates.std(ddof=1))
    assert spread.deviation.low == pytest.approx(rates.std(ddof=1) * np.sqrt(9 / 19.023), rel=1e-4)
    assert spread.deviation.high == pytest.approx(rates.std(ddof=1) * np.sqrt(9 / 2.700), rel=1e-3)
    assert (spread.runs, spread.best, spread.worst) == (10, rates.min(), rates.max())
    assert spread.mean == pytest.approx(rates.mean())
    assert describe(Sample.of_rates(rates[:1])).deviation is None


def test_without_speakers_it_is_welchs_students_or_yuens_test() -> None:
    for trimmed, sizes in ((False, (2, 3, 10)), (True, (5, 9, 20))):
        for runs in sizes:
            for seed in range(10):
                arm, baseline = rates(seed, runs), rates(seed + 100, runs, 0.03)
                measured = estimate((1, arm), (-1, baseline), trimmed=trimmed)
                trim = 0.2 if trimmed else 0
                expected = stats.ttest_ind(arm.rates, baseline.rates, equal_var=False, trim=trim)
                assert FixedLength().p(measured) == pytest.approx(expected.pvalue)
                assert measured.degrees == pytest.approx(expected.df)
                assert (measured.speakers, measured.over_speakers) == (0, None)
    with pytest.raises(ValueError, match="5 runs of every arm; one arm has 4"):
        contrast_estimate([(1, rates(0, 5)), (-1, rates(1, 4))], trimmed=True)
    for seed in range(10):
        for replicates in (False, True):
            arm, baseline = rates(seed, 4), rates(seed + 100, 4)
            measured = paired(arm, baseline, replicates)
            expected = stats.ttest_rel(arm.rates, baseline.rates)
            assert FixedLength().p(measured) == pytest.approx(expected.pvalue)
            assert (measured.degrees, measured.information, measured.models) == (3, 4, 4)
    a, b = World().sweep(np.random.default_rng(0), 2, 5)  # replicates have their own speakers
    measured = paired(a, b, replicates=True)
    assert FixedLength().p(measured) == pytest.approx(stats.ttest_rel(a.rates, b.rates).pvalue)
    assert measured.speakers == 0


def test_the_three_parts_add_up() -> None:
    for seed in range(10):
        world = World(seeds=(0.01 * (seed % 3),), speakers=5 + seed)
        a, b = world.sweep(np.random.default_rng(seed), 2, 3)
        assert a.totals is not None
        assert a.speakers is not None
        measured = estimate((1, a), (-1, b))
        seeds = [sample.rates.var(ddof=1) / 3 for sample in (a, b)]
        mean = a.errors.mean(axis=0) - b.errors.mean(axis=0)
        speakers = speaker_interval(mean, a.totals, a.speakers).standard_error ** 2
        shared = [shared_variance(errors, a.totals, a.speakers) for errors in (a.errors, b.errors)]
        variance = max(sum(seeds) + speakers - sum(shared), sum(seeds), speakers)
        welch = sum(seeds) ** 2 / sum(v**2 / 2 for v in seeds)
        high = upper(sum(seeds), welch), upper(speakers, 4 + seed)
        uncertainty = high[0] ** 2 / welch + high[1] ** 2 / (4 + seed) + sum(v**2 / 2 / (4 + seed) for v in shared)
        whole = max(sum(high) - sum(shared), *high)
        assert measured.standard_error == pytest.approx(np.sqrt(variance))
        assert measured.degrees == pytest.approx(max(whole**2 / uncertainty, min(welch, 4 + seed)))
        assert min(welch, 4 + seed) - 1e-9 <= measured.degrees <= 4 + 4 + seed
        assert measured.speakers == 5 + seed


def test_too_few_runs_and_other_utterances_leave_it_open() -> None:
    assert contrast_estimate([(1, rates(0, 1)), (-1, rates(1, 5))]) is None
    assert contrast_estimate([]) is None
    assert estimate((1, rates(0, 2)), (-1, rates(1, 2)), (0, rates(2, 1))).models == 2
    with pytest.raises(ValueError, match="not 3 and 2"):
        paired_estimate([(1.0, rates(0, 3)), (-1.0, rates(0, 2))])
    generator = np.random.default_rng(0)
    (a,), (b,) = World(speakers=4).sweep(generator, 1, 3), World(speakers=5).sweep(generator, 1, 3)
    with pytest.raises(ValueError, match="different utterances"):
        contrast_estimate([(1, a), (-1, b)])
    with pytest.raises(ValueError, match="different utterances"):
        paired_estimate([(1.0, a), (-1.0, b)])
    without = estimate((1, a), (-1, Sample.of_rates(b.rates)))
    assert (without.speakers, without.over_speakers) == (0, None)


def test_equal_counts_of_a_small_test_set_are_no_proof() -> None:
    """Twice 7 and twice 8 errors in 100 words, or in an unknown number: equal by chance, not without variance."""
    first, second = np.array([0.07, 0.07]), np.array([0.08, 0.08])
    for total in (100.0, None):
        measured = estimate((1, Sample.of_rates(first, total)), (-1, Sample.of_rates(second, total)))
        assert measured.standard_error == pytest.approx(0.01 / np.sqrt(12))
        assert FixedLength().p(measured) > 0.05
    pairs = paired(Sample.of_rates(first, 100), Sample.of_rates(second, 100))
    assert pairs.standard_error == pytest.approx(0.01 / np.sqrt(12))
    nothing = estimate((1, Sample.of_rates(np.array([0.1, 0.1]))), (-1, Sample.of_rates(np.array([0.1, 0.1]))))
    alone = [Sample.of_errors(np.array([[1.0], [2.0]]) + k, np.array([20.0]), np.array(["a"])) for k in (0, 5)]
    single = estimate((1, alone[0]), (-1, alone[1]))
    for measured in (nothing, single):  # no step between rates is known, and a test set of one utterance
        assert FixedLength().p(measured) == 1
        assert FixedLength().half_width(measured, 0.05) == np.inf
    assert single.speakers == 1


def test_spearman_is_scipys_and_too_few_or_constant_values_say_nothing() -> None:
    for seed in range(5):
        x, y = np.random.default_rng(seed).normal(size=(2, 12)).round(1).tolist()
        measured = spearman(x, y)
        assert measured.value == pytest.approx(stats.spearmanr(x, y).statistic)
        assert measured.low < measured.value < measured.high
    assert spearman([1, 2, 3], [1, 2, 3]) is None
    assert spearman([1, 1, 1, 1], [1, 2, 3, 4]) is None
    assert spearman([1, 2, 3, 4], [10, 20, 30, 40]) == Correlation(1.0, 1.0, 1.0, 4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "equal arms, 5 seeds", "little seed noise, 10 speakers, 3", 
        "one arm × 3, 5 speakers, 3 seeds", "5 % diverged, trimmed, 10 seeds",
        "8 arms, 3 seeds", "decoders, 3 models", "decoders, one model", "2 seeds against 18",
        "interaction of factors, ratio", "few speakers carry, ratio", "looks at 3, 5, 10, 20",
    ],
)  # fmt: skip
def test_equal_arms_are_called_different_in_at_most_5_percent(name: str) -> None:
    """5 %, and two standard errors of so many sweeps; the campaign has all designs and more sweeps."""
    assert alarms(DESIGNS[name], 200, seed=1) / 200 <= 0.05 + 2 * sqrt(0.05 * 0.95 / 200)


@pytest.mark.slow
def test_an_effect_is_found() -> None:
    """A test that never calls anything different raises no false alarms either."""
    for name, least in (
        ("equal arms, 5 seeds", 0.5), ("one arm × 3, 10 seeds", 0.8), ("5 % diverged, trimmed, 10 seeds", 0.75),
        ("decoders, 6 models", 0.5), ("interaction, 5 seeds", 0.8), ("looks at 3, 5, 10, 20", 0.85),
    ):  # fmt: skip
        assert finds(DESIGNS[name], 100, seed=2) / 100 >= least, name


def test_places_of_errors_by_hand_and_several_seeds_count_once() -> None:
    assert error_places("a b c", "a b c") == []
    assert error_places("a b c", "a x c") == [3]
    assert error_places("a b c", "b c") == [1]
    assert error_places("a b c", "a b c d e") == [6, 6]
    assert error_places("", "a") == [0]
    assert error_places("a", "") == [1]
    # three equal seeds give the mean of one seed, not three times the evidence
    ours, theirs = [1, 3, 21], [9, 21]
    assert segment_differences([ours] * 3, [theirs] * 3) == pytest.approx(segment_differences([ours], [theirs]))


def test_the_result_is_that_of_sc_stats() -> None:
    def sgml_places(name: str) -> dict[str, Places]:
        """Places of errors by utterance, from the alignment that sclite made."""
        places_by_id = {}
        text = shared_data(f"golden/wer/sctk/{name}").read_text()
        for id_, aligned in re.findall(r'<PATH id="(.*?)".*?>\n(.*?)\n</PATH>', text, flags=re.DOTALL):
            places, word = [], 0
            for kind in re.findall(r"(?:^|:)([CSDI]),", aligned):
                if kind != "C":
                    places.append(2 * word + (kind != "I"))
                word += kind != "I"
            places_by_id[id_] = places
        return places_by_id

    for first, second, output in (("file1", "file2", "test1a"), ("file2", "file1", "test1b")):
        ours, theirs = sgml_places(f"{first}.sgml"), sgml_places(f"{second}.sgml")
        assert sum(map(len, ours.values())) + sum(map(len, theirs.values())) == 16  # 9 and 7 in NIST's report
        result = matched_pairs([d for id_ in ours for d in segment_differences([ours[id_]], [theirs[id_]])])
        text = shared_data(f"golden/wer/sctk/base_sc_stats/{output}.stats.mapsswe").read_text()
        for key, mark in {"segments": "# segs", "mean": "mean", "deviation": "std dev", "z": "Z Stat"}.items():
            (printed,) = re.findall(rf"\({mark}: ([-\d.]+)\)", text)[:1]
            assert getattr(result, key) == pytest.approx(float(printed), abs=5e-4), key
        assert result.p < 0.05  # (Stat Diff: Yes)


def test_segments_are_those_of_nists_state_machine() -> None:
    def automaton(length: int, first: Places, second: Places) -> list[tuple[int, int]]:
        """Segments (errors of the first, of the second) by the state machine of NIST's mtchprs.c, read word by word."""
        state, good, segments, current = "b", 0, [], [0, 0]
        for word in range(length + 1):
            inserted = [places.count(2 * word) for places in (first, second)]
            wrong = [places.count(2 * word + 1) for places in (first, second)]
            current = [a + b for a, b in zip(current, inserted, strict=True)]
            if any(inserted):
                state, good = "e", 0
            if word == length:
                break
            current = [a + b for a, b in zip(current, wrong, strict=True)]
            if any(wrong):
                state, good = "e", 0
            elif state == "e":
                good += 1
                if good == BUFFER:
                    segments.append(tuple(current))
                    state, good, current = "b", 0, [0, 0]
        return segments + ([tuple(current)] if state == "e" else [])

    for seed in range(100):
        drawn = random.Random(seed)
        length = drawn.randint(0, 20)
        first, second = (sorted(drawn.choices(range(2 * length + 1), k=drawn.randint(0, 5))) for _ in "ab")
        first, second = ([p for i, p in enumerate(x) if p % 2 == 0 or p not in x[:i]] for x in (first, second))
        expected = [a - b for a, b in automaton(length, first, second)]
        assert segment_differences([first], [second]) == pytest.approx(expected)


def test_p_is_the_normals_and_without_spread_nothing_is_decided() -> None:
    values = np.random.default_rng(0).normal(0.2, 1, 80)
    expected = stats.norm.sf(stats.ttest_1samp(values, 0).statistic) * 2
    assert matched_pairs(values.tolist()).p == pytest.approx(expected)
    assert matched_pairs([1.0, 2.0]).z == pytest.approx(1.5 / (0.5**0.5 / 2**0.5))  # mean over its standard error
    for same in ([], [1.0], [1.0, 1.0], [0.0] * 9):
        assert (matched_pairs(same).z, matched_pairs(same).p) == (0, 1)

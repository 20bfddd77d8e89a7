"""What was drawn independently, runs that fail, how large a difference is, and the scale that decides."""

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from asr_verdicts.arms import Arm
from asr_verdicts.comparison import Comparison, compare
from asr_verdicts.design import Options
from asr_verdicts.errors import UsageError
from asr_verdicts.evidence import Evidence
from asr_verdicts.failures import FailureRule
from asr_verdicts.record import Record
from asr_verdicts.samples import units_of_rows
from asr_verdicts.scales import RELATIVE
from asr_verdicts.sentences import write_sentence
from asr_verdicts.statistics.distributions import binomial_interval
from asr_verdicts.statistics.estimate import contrast_estimate
from asr_verdicts.statistics.procedures import FixedLength
from asr_verdicts.statistics.sample import Sample
from asr_verdicts.verdict import Verdict
from tests.helpers.invented_records import diverged, finished, record, records

SPEAKERS, EACH, WORDS, SEEDS = 40, 5, 20, 5
ABLATION = {"question": "?", "factor": "rnn", "baseline": "lstm"}


def runs(arm: str, effects: np.ndarray, voices: Sequence[str] | None) -> list[Record]:
    """A run per seed; effects: of the arm on the WER of each speaker; voices: of each speaker."""
    made = []
    for seed in range(SEEDS):
        rng = np.random.default_rng([seed, sum(arm.encode())])
        rows: list[dict[str, Any]] = []
        for speaker in range(SPEAKERS):
            for number in range(EACH):
                wrong = int(rng.binomial(WORDS, float(np.clip(0.25 + effects[speaker], 0, 1))))
                unit = {} if voices is None else {"unit": voices[speaker]}
                rows.append({
                    "set": "test", "id": f"{speaker:02d}-{number}", "speaker": str(speaker), **unit,
                    "reference": "a " * WORDS, "hypothesis": "x " * wrong + "a " * (WORDS - wrong), "words": WORDS,
                    "substitutions": wrong, "deletions": 0, "insertions": 0,
                })  # fmt: skip
        made.append(finished(f"rnn={arm}", seed, rows, ablation=ABLATION))
    return made


@functools.cache
def baseline(voices: tuple[str, ...] | None) -> list[Record]:
    return runs("lstm", np.zeros(SPEAKERS), voices)


def verdict(effects: np.ndarray, voices: Sequence[str] | None) -> Verdict:
    both = records(baseline(None if voices is None else tuple(voices)), runs("gru", effects, voices))
    comparison = compare(both, Options(), "x", Evidence(FixedLength(), "declared"))
    (answer,) = comparison.answer
    return answer


def planted(count: int, rng: np.random.Generator) -> tuple[np.ndarray, list[str]]:
    """The effect of an arm on each of 40 speakers, who have it from their voice; and their voices."""
    of_voice = rng.normal(0, 0.1, count)
    return np.array([of_voice[speaker % count] for speaker in range(SPEAKERS)]), [
        f"voice pl+{speaker % count}" for speaker in range(SPEAKERS)
    ]


def test_eight_voices_in_forty_speakers_give_an_interval_over_eight_units() -> None:
    effects, voices = planted(8, np.random.default_rng(1))
    by_voice, by_speaker = verdict(effects, voices), verdict(effects, None)
    estimate, naive = by_voice.estimate, by_speaker.estimate
    assert (estimate.speakers, estimate.unit) == (8, "voices")
    assert (naive.speakers, naive.unit) == (40, "speakers")
    assert "5 seeds, 8 voices" in by_voice.sentence
    assert "5 seeds, 40 speakers" in by_speaker.sentence
    # five speakers of a voice say what one says: the variance is five times as large, by 7 in place of 39 degrees
    assert estimate.over_speakers.standard_error / naive.over_speakers.standard_error == pytest.approx(5**0.5, rel=0.1)
    assert estimate.over_speakers.degrees == 7
    test_speakers = [levers.speakers for levers in by_voice.levers.values()]
    assert all(count is None or count > 8 for count in test_speakers)


@pytest.mark.slow
def test_arms_that_are_equal_but_for_the_voices_drawn_are_called_different_as_often_as_promised() -> None:
    """The effects of 8 voices have mean 0 over all voices there are. By speakers most tables claim a difference."""
    rng = np.random.default_rng(0)
    claims = {"voices": 0, "speakers": 0}
    tables = 40
    for _ in range(tables):
        effects, voices = planted(8, rng)
        claims["voices"] += verdict(effects, voices).outcome in ("better", "worse")
        claims["speakers"] += verdict(effects, None).outcome in ("better", "worse")
    assert claims["voices"] <= 6  # 5 % of 40 are 2; 7 or more would come by chance in 3 of 1,000 campaigns
    assert claims["speakers"] >= 12


def test_units_of_rows() -> None:
    rows: list[Any]
    for rows, units, kind in (
        ([{"unit": ""}, {"unit": ""}], ["1", "2"], "speakers"),
        ([{"unit": "voice a"}, {"unit": "voice a"}], ["voice a", "voice a"], "voices"),
        ([{"unit": "session a"}, {"unit": "book a"}], ["session a", "book a"], "units"),
        ([{"unit": "voice a"}, {}], ["1", "2"], "speakers"),
    ):
        spoken = [{"speaker": str(number), **row} for number, row in enumerate(rows, start=1)]
        assert units_of_rows(spoken) == (units, kind)


DECLARED = Evidence(FixedLength(), "declared")


def arm(name: str, rates: list[float], **ablation: object) -> list[Record]:
    return [record(name, seed, rate, ablation=dict(ablation) or None) for seed, rate in enumerate(rates)]


def compared(*groups: list[Record]) -> Comparison:
    return compare(records(*groups), Options(), "sweep", DECLARED)


STEADY = [0.20, 0.21, 0.19, 0.20, 0.21, 0.20]


def test_equal_arms_of_which_one_loses_runs_are_never_simply_equivalent() -> None:
    wanted = {"margin": 5.0, "baseline": "lstm"}
    lstm, gru = arm("rnn=lstm", STEADY, **wanted), arm("rnn=gru", STEADY, **wanted)
    (sound,) = compared(lstm, gru).verdicts
    assert sound.outcome == "equivalent"
    assert "No run failed, but 6 runs miss a failure rate of 10 % in 53 % of cases." in sound.sentence
    lost = [*gru[:5], diverged("rnn=gru", 5, ablation=dict(wanted))]
    (some,) = compared(lstm, lost).verdicts
    assert some.outcome == "typical runs equivalent"
    assert some.sentence.startswith("Typical runs of rnn=gru and rnn=lstm are equivalent within 5 points on test: ")
    assert (
        "1 of 6 runs of rnn=gru diverged (95 % interval 0 to 64 %) and 0 of 6 of rnn=lstm (0 to 46 %)" in some.sentence
    )
    assert "count as 100 %" not in some.sentence


def test_a_run_that_ends_far_above_the_others_is_not_averaged_in() -> None:
    rates = [0.30, 0.31, 0.30, 0.29, 0.30, 0.75]
    (found,) = compared(arm("rnn=lstm", STEADY), arm("rnn=gru", rates)).verdicts
    assert found.outcome == "worse"
    assert found.failed == {"rnn=lstm": 0, "rnn=gru": 1}
    assert found.rate == pytest.approx(0.30, abs=0.01)
    assert "diverged or ended above 1.5 times the median of its arm" in found.sentence
    assert "The worst run of rnn=gru that ended has 7" in found.sentence
    (found,) = compared(arm("rnn=lstm", STEADY[:3]), arm("rnn=gru", [0.30, 0.31, 0.75])).verdicts
    assert found.outcome == "undecided"
    assert "1 of 3 runs of rnn=gru failed, and fewer than 5 runs per arm" in found.sentence
    assert binomial_interval(0, 10) == (0.0, pytest.approx(1 - 0.025 ** (1 / 10)))
    assert binomial_interval(3, 10) == pytest.approx((0.0667, 0.6525), abs=1e-4)  # Clopper & Pearson's table


def test_a_relative_difference_is_the_logarithm_of_the_ratio() -> None:
    """By resampling: a ratio's standard error is that of its logarithm, to first order."""
    generator = np.random.default_rng(0)
    words = np.full(40, 200.0)
    a, b = (
        Sample.of_errors(generator.poisson(rate * words, (6, 40)).astype(float), words, np.arange(40).astype(str))
        for rate in (0.3, 0.2)
    )
    relative = contrast_estimate([(1.0, a), (-1.0, b)], scale=RELATIVE)
    points = contrast_estimate([(1.0, a), (-1.0, b)])
    assert points is not None
    assert relative.value == pytest.approx(math.log(a.rates.mean() / b.rates.mean()))
    logs = [np.log(sample.rates).var(ddof=1) / 6 for sample in (a, b)]
    assert relative.over_seeds.variance == pytest.approx(sum(logs), rel=0.05)
    doubled = contrast_estimate([(1.0, Sample.of_errors(2 * a.errors, words)), (-1.0, b)], scale=RELATIVE)
    assert doubled.value == pytest.approx(relative.value + math.log(2))
    nothing = Sample.of_errors(np.zeros((6, 40)), words, b.speakers)
    assert contrast_estimate([(1.0, a), (-1.0, nothing)], scale=RELATIVE) is None


def test_a_relative_scale_decides_where_it_is_declared_and_has_to_fit_its_margin() -> None:
    wanted = {"margin": "50%", "baseline": "lstm"}
    found = compared(arm("rnn=lstm", STEADY, **wanted), arm("rnn=gru", [0.4] * 6, **wanted)).verdicts[0]
    assert found.scale is RELATIVE
    assert found.margin == pytest.approx(math.log(1.5))
    assert found.grade == "beyond the margin"
    assert " % relative (95 % interval +" in found.sentence
    assert ". More than the margin of 50 % of the WER. " in found.sentence
    for ablation, message in (
        ({"scale": "log"}, r"ablation\.scale=log: expected points or relative"),
        ({"scale": "points", "margin": "5%"}, r"ablation\.margin=5%: expected points, such as 2\.0, because"),
        ({"scale": "relative", "margin": 2.0}, r"ablation\.margin=2\.0: expected a percentage, such as 5%, because"),
        ({"margin": "much"}, r"ablation\.margin=much: expected the difference that would not matter"),
    ):
        with pytest.raises(UsageError, match=message):
            compared(arm("rnn=lstm", STEADY, **ablation), arm("rnn=gru", STEADY, **ablation))  # type: ignore[arg-type]


def test_a_fold_without_a_partner_is_left_out_and_said() -> None:
    """Six folds of one arm and five of the other: the five that both have are pairs."""
    groups = [
        [record(name, seed, rate + 0.01 * seed, speakers=f"f{seed}-") for seed in range(folds)]
        for name, rate, folds in (("rnn=lstm", 0.2, 6), ("rnn=gru", 0.3, 5))
    ]
    comparison = compared(*groups)
    (found,) = comparison.verdicts
    assert found.estimate.paired
    assert found.seeds == {"rnn=lstm": 5, "rnn=gru": 5}
    assert "5 models in pairs, each pair with its own test set" in found.sentence
    assert any("seed 5 of rnn=lstm has no partner: compared on 5 common seeds" in line for line in comparison.warnings)


def test_a_fold_of_hard_speakers_is_no_failure() -> None:
    """Both arms have twice the errors on the last fold; with the same speakers for every seed the run has failed."""

    def found(folds: bool) -> Verdict:
        groups = [
            [
                record(name, seed, rate + more, speakers=f"f{seed if folds else 0}-")
                for seed, rate in enumerate([0.2, 0.21, 0.19, 0.22, 0.42])
            ]
            for name, more in (("rnn=lstm", 0.0), ("rnn=gru", 0.02))
        ]
        (verdict,) = compared(*groups).verdicts
        return verdict

    assert found(folds=False).failed == {"rnn=lstm": 1, "rnn=gru": 1}
    assert "ended above" in found(folds=False).sentence
    assert found(folds=True).failed == {"rnn=lstm": 0, "rnn=gru": 0}
    assert "ended above" not in found(folds=True).sentence


def test_failing_is_declared() -> None:
    (one,) = compared(
        [record("rnn=gru", seed, rate) for seed, rate in enumerate([0.2, 0.22, 0.2, 0.2, 0.22, 0.5])]
    ).arms
    rules: list[tuple[object, list[int]]] = [
        (None, [5]), ("diverged", []), ({"median": 3}, []), ({"rate": 20.5}, [1, 4, 5]), ({"rate": 60}, []),
    ]  # fmt: skip
    for rule, failed in rules:
        assert [run.seed for run in FailureRule.parse(rule).failed(one, "test", "wer")] == failed
    # counting noise is no failure: of 4,000 words, 25 errors and four times √25 are 45
    for errors, failed in (([21, 38, 25], []), ([25, 25, 44], []), ([25, 25, 46], [2])):
        counted = [
            SimpleNamespace(seed=seed, diverged_at=None, value=lambda _, name, n=n: n / 4000 if name == "wer" else 4000)
            for seed, n in enumerate(errors)
        ]
        invented_arm = cast(Arm, SimpleNamespace(runs=counted, results=counted))
        assert [run.seed for run in FailureRule().failed(invented_arm, "test", "wer")] == failed
    for wrong in ("sometimes", {"median": 0.5}, {"rate": 101}, {"rate": "x"}, {"a": 1}, [1], True):
        with pytest.raises(UsageError, match=r"ablation\.failed=.*expected diverged"):
            FailureRule.parse(wrong)


def test_a_shown_difference_has_a_grade() -> None:
    comparison = compared(*(arm(name, STEADY[:4]) for name in ("rnn=lstm", "rnn=gru")))
    for low, high, grade, end in (
        (0.03, 0.05, "beyond the margin", "More than the margin of 2 points."),
        (-0.05, -0.025, "beyond the margin", "More than the margin of 2 points."),
        (0.01, 0.05, "size unclear", "It may or may not exceed the margin of 2 points."),
        (0.001, 0.03, "less than the margin", "Less than the margin of 2 points."),
        (0.001, 0.015, "less than the margin", "The whole interval lies within the margin of 2 points."),
        (-0.01, 0.05, None, ""),
    ):
        outcome = "worse" if low > 0 else "better" if high < 0 else "not shown"
        measured = replace(
            comparison.verdicts[0], low=low, high=high, difference=(low + high) / 2, margin=0.02, outcome=outcome
        )
        assert measured.grade == grade
        assert measured.immaterial == end.startswith("The whole interval")
        assert not end or f"). {end}" in write_sentence(measured, comparison.arms, "")
        assert replace(measured, margin=None).grade is None


def test_superiority_is_the_share_of_pairs() -> None:
    comparison = compared(arm("rnn=lstm", [0.2, 0.3, 0.4]), arm("rnn=gru", [0.1, 0.25, 0.5]))
    base, own = ([run.summary.sets["test"].wer for run in one.results] for one in comparison.arms)
    (found,) = comparison.verdicts
    assert found.superiority == pytest.approx(np.mean([mine < theirs for mine in own for theirs in base]))

"""The answer: its table, and what was found and how in a few lines."""

import re
from dataclasses import replace

import pytest
from scipy import stats

from asr_verdicts.arms import training_end
from asr_verdicts.comparison import Comparison, compare
from asr_verdicts.design import Options
from asr_verdicts.evidence import Evidence
from asr_verdicts.metrics import WER
from asr_verdicts.record import ONE_SYSTEM, DataRecord, Record, SetContent
from asr_verdicts.report.answer import answer_rows, effect_rows, evidence_lines, finding_lines, set_line
from asr_verdicts.sentences import power_text
from asr_verdicts.statistics.intervals import Range
from asr_verdicts.statistics.procedures import FixedLength
from tests.helpers.invented_records import absent, diverged, record, records

DECLARED = Evidence(FixedLength(), "declared", complete=True)
RATES = {"lstm": 0.2, "gru": 0.3, "rnn": 0.5, "qrnn": 0.1, "sru": 0.2, "fsmn": 0.96}


def made(arm: str, rate: float, seeds: int = 6, **more: object) -> list[Record]:
    return [record(f"rnn={arm}", seed, rate, ablation=dict(more)) for seed in range(seeds)]


def compared(*runs: list[Record]) -> Comparison:
    return compare(records(*runs), Options(baseline="lstm"), "sweep", DECLARED)


@pytest.fixture(scope="module")
def several() -> Comparison:
    """Arms by outcome: gru and rnn worse, qrnn better, sru equivalent within 3 points, fsmn far worse."""
    return compared(*(made(name, rate, margin=3.0) for name, rate in RATES.items()))


def test_arms_are_sorted_by_outcome_and_size_after_the_baseline(several: Comparison) -> None:
    rows = answer_rows(several)
    names = ["lstm", "fsmn", "rnn", "gru", "qrnn", "sru"]
    assert [row.name for row in rows] == [f"rnn={name}" for name in names]
    assert [row.outcome for row in rows] == ["", "worse", "worse", "worse", "better", "equivalent"]
    assert rows[0].difference == rows[0].interval == ""
    assert rows[4].difference.startswith("−")
    assert effect_rows(several) == []


def test_equality_has_the_interval_of_two_one_sided_tests(several: Comparison) -> None:
    """Schuirmann 1987: at 5 % over five questions each side has a hundredth."""
    verdict = next(verdict for verdict in several.answer if verdict.outcome == "equivalent")
    estimate = verdict.estimate
    assert estimate is not None
    half = stats.t.isf(0.05 / 5, estimate.degrees) * estimate.standard_error
    assert [row.level for row in answer_rows(several)] == [0, 95, 95, 95, 95, 90]
    ends = " to ".join(WER.text(end, sign=True) for end in (estimate.value - half, estimate.value + half))
    assert answer_rows(several)[-1].interval == ends
    assert f"(90 % interval {ends}). Student's t" in verdict.sentence
    assert ", two one-sided tests, corrected for 5 comparisons; 6 seeds, 20 speakers." in verdict.sentence
    assert verdict.sentence.startswith("rnn=sru and rnn=lstm are equivalent within 3 points on test: ")


def test_many_verdicts_are_grouped_by_outcome_and_margin(several: Comparison) -> None:
    lines = finding_lines(several)
    assert several.answer[0].shown_margin == pytest.approx(0.03)
    assert lines[:3] == [
        "Worse: rnn=fsmn, rnn=rnn, rnn=gru. More than the margin of 3 points.",
        "Better: rnn=qrnn. More than the margin of 3 points.",
        "Equivalent within 3 points: rnn=sru.",
    ]
    assert "6 of 6 runs of rnn=fsmn have not learned." in lines
    assert evidence_lines(several) == [
        "Intervals: 90 % or 95 %, corrected for 5 comparisons (Holm), over new seeds and new speakers.",
        "Student's t at a declared number of seeds: declared.",
    ]


def test_runs_that_a_reader_has_to_know_of_are_named_once() -> None:
    arms = [made(name, RATES[name]) for name in ("lstm", "gru", "rnn", "sru")]
    lost = [diverged("rnn=lstm", 6, ablation={})]
    runs = replace(records(*arms, lost), unfinished=[absent("rnn=gru", 7, "failed", ablation={})])
    lines = finding_lines(compare(runs, Options(baseline="lstm"), "sweep", DECLARED))
    assert len([line for line in lines if "1 of 7 runs of rnn=lstm" in line or "and 1 of 7 of rnn=lstm" in line]) == 3
    assert lines.count("rnn=gru lacks 1 of 7 runs (1 failed).") == 1


def test_one_training_of_each_covers_no_other_training() -> None:
    runs = [replace(record(f"rnn={name}", 0, RATES[name]), model=ONE_SYSTEM) for name in ("lstm", "gru")]
    lines = evidence_lines(compare(records(runs), Options(baseline="lstm"), "pair", DECLARED))
    assert lines[0] == "Intervals: 95 %, over new speakers, not over new training runs."


def test_power_spans_the_verdicts_and_stays_below_100_points(several: Comparison) -> None:
    base = several.answer[0]
    sizes = [0.022, 0.0257, 1.4]
    verdicts = [replace(base, detectable=Range(size, size / 2, 2 * size)) for size in sizes]
    assert power_text(verdicts[:1], WER) == "A difference of 2.2 points would probably have been detected"
    assert re.fullmatch(
        r"Differences of 2\.2 to 2\.6 points or more would .* \(power 80 %\)", power_text(verdicts, WER)
    )
    assert power_text(verdicts[2:], WER) == ""


def test_arms_that_were_not_trained_to_the_end_are_named() -> None:
    def with_losses(arm: str, *curves: list[float] | None) -> list[Record]:
        runs = made(arm, RATES[arm])
        losses = [*curves, *[None] * (len(runs) - len(curves))]
        summaries = [replace(run.summary, validation_losses=own) for run, own in zip(runs, losses, strict=True)]
        return [replace(run, summary=summary) for run, summary in zip(runs, summaries, strict=True)]

    falling, rising, flat = [3.0, 2.0, 1.5], [3.0, 2.0, 1.0, 1.06], [3.0, 1.0, 1.01]
    two = compared(with_losses("lstm", falling, flat, falling[1:]), with_losses("gru", *[rising] * 4))
    assert finding_lines(two) == [
        two.answer[0].sentence,
        "The validation loss still fell in the last epoch in 1 of 3 runs of rnn=lstm: longer training may change the"
        " answer.",
        "The validation loss rose after its minimum in 4 of 4 runs of rnn=gru: these runs overfit.",
    ]
    last = finding_lines(compared(*(with_losses(arm, falling) for arm in ("lstm", "gru", "rnn", "sru"))))[-1]
    assert last.startswith("The validation loss still fell in the last epoch in 1 of 1 runs of rnn=lstm, ")
    assert last.count("1 of 1 runs of rnn=") == 4
    for losses, end in (
        ([1.0, 0.5], ""), ([1.0, 0.5, 0.489], "falling"), ([1.0, 0.5, 0.491], ""), ([1.0, 0.4, 0.5, 0.41], ""),
        ([1.0, 0.4, 0.5, 0.421], "rising"), ([0.4, 1.0, 0.39], "falling"),
    ):  # fmt: skip
        assert training_end(losses) == end


def test_the_sets_size_and_seeds_are_named(several: Comparison) -> None:
    seeds = set_line(compared(made("lstm", 0.2), made("gru", 0.3, seeds=5)))
    assert seeds.endswith("20 speakers; 5 to 6 seeds per arm")
    assert set_line(several).startswith("test: ")
    other = [record(f"rnn={name}", seed, 0.2, set_="other") for name in ("lstm", "gru") for seed in range(6)]
    both = [
        replace(
            run,
            summary=replace(run.summary, sets={**run.summary.sets, **more.summary.sets}, test_sets=["test", "other"]),
            utterances=[*run.utterances, *more.utterances],
        )
        for run, more in zip([*made("lstm", 0.2), *made("gru", 0.3)], other, strict=True)
    ]
    assert set_line(compare(records(both), Options(), "sweep", DECLARED)).startswith("test decides: ")


def test_the_corpus_is_called_fixed_if_all_runs_had_it() -> None:
    for hashes, fixed in ((("x", "x"), True), (("x", "y"), False), ((None, "x"), False)):
        arms = [
            [
                replace(run, data=DataRecord(sets={"train": SetContent(sha256=sha256)})) if sha256 else run
                for run in made(name, RATES[name])
            ]
            for name, sha256 in zip(("lstm", "gru"), hashes, strict=True)
        ]
        comparison = compare(records(*arms), Options(baseline="lstm", allow=["data.json"]), "sweep", DECLARED)
        assert ("the training corpus is fixed" in evidence_lines(comparison)[0]) == fixed

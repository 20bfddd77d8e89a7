"""The answer: its table, and what was found and how in a few lines."""

from dataclasses import replace

from scipy import stats

from asr_verdicts.arms import training_end
from asr_verdicts.comparison import Comparison, compare
from asr_verdicts.design import Options
from asr_verdicts.evidence import Evidence
from asr_verdicts.metrics import WER
from asr_verdicts.record import DataRecord, Record, SetContent
from asr_verdicts.report.answer import answer_rows, effect_rows, evidence_lines, finding_lines
from asr_verdicts.statistics.procedures import FixedLength
from tests.helpers.invented_records import record, records

DECLARED = Evidence(FixedLength(), "declared", complete=True)
RATES = {"lstm": 0.2, "gru": 0.3, "rnn": 0.5, "qrnn": 0.1, "sru": 0.2, "fsmn": 0.96}


def made(arm: str, rate: float, seeds: int = 6, **more: object) -> list[Record]:
    return [record(f"rnn={arm}", seed, rate, ablation=dict(more)) for seed in range(seeds)]


def compared(*runs: list[Record]) -> Comparison:
    return compare(records(*runs), Options(baseline="lstm"), "sweep", DECLARED)


def test_arms_are_sorted_by_outcome_and_size_and_equality_has_the_interval_of_two_one_sided_tests() -> None:
    """gru and rnn are worse, qrnn better, sru equivalent within 3 points, fsmn far worse. Schuirmann 1987: at 5 % over
    five questions each side has a hundredth.
    """
    several = compared(*(made(name, rate, margin=3.0) for name, rate in RATES.items()))
    rows = answer_rows(several)
    names = ["lstm", "fsmn", "rnn", "gru", "qrnn", "sru"]
    assert [row.name for row in rows] == [f"rnn={name}" for name in names]
    assert [row.outcome for row in rows] == ["", "worse", "worse", "worse", "better", "equivalent"]
    assert rows[0].difference == rows[0].interval == ""
    assert rows[4].difference.startswith("−")
    assert effect_rows(several) == []
    verdict = next(verdict for verdict in several.answer if verdict.outcome == "equivalent")
    estimate = verdict.estimate
    half = stats.t.isf(0.05 / 5, estimate.degrees) * estimate.standard_error
    assert [row.level for row in answer_rows(several)] == [0, 95, 95, 95, 95, 90]
    ends = " to ".join(WER.text(end, sign=True) for end in (estimate.value - half, estimate.value + half))
    assert answer_rows(several)[-1].interval == ends
    assert f"(90 % interval {ends}). Student's t" in verdict.sentence
    assert ", two one-sided tests, corrected for 5 comparisons; 6 seeds, 20 speakers." in verdict.sentence
    assert verdict.sentence.startswith("rnn=sru and rnn=lstm are equivalent within 3 points on test: ")


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

"""The answer to a comparison: a table with one row per arm, sorted by outcome, and the findings in a few sentences."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from asr_verdicts.arms import shared_start
from asr_verdicts.comparison import Comparison
from asr_verdicts.metrics import Metric, find_metric, format_interval
from asr_verdicts.report.section import Section, tabulate
from asr_verdicts.scales import RELATIVE
from asr_verdicts.sentences import (
    grade_text,
    lever_text,
    margin_text,
    notes_on_runs,
    power_text,
    scope_text,
    training_end_notes,
    units_text,
)
from asr_verdicts.table_columns import rate_rows, value_of
from asr_verdicts.verdict import EQUIVALENT, SHOWN, Outcome, Verdict
from asr_verdicts.warnings import seed_noise_text

# order in which the answer's table lists the outcomes
ORDER: tuple[Outcome, ...] = (
    "worse", "better", "interaction shown", "equivalent", "typical runs equivalent", "not shown",
    "no interaction shown", "open", "undecided", "not learned",
)  # fmt: skip
LONGEST = 19  # maximum length, in characters, of a heading that names the baseline; an interval is equally long
SENTENCES = 2  # maximum number of verdicts that get one sentence each; if there are more, they are grouped by outcome


@dataclass(frozen=True)
class AnswerRow:
    """A row of the answer's table, for an arm or for an effect of crossed factors. A cell without a value is "".

    - rate: error rate as mean ± standard deviation over seeds
    - level: confidence level of the interval in percent; 0 if there is no interval
    - outcome: the verdict's outcome; "" for the baseline and for the arms of crossed factors
    """

    name: str
    runs: int
    rate: str
    difference: str = ""
    interval: str = ""
    level: float = 0
    outcome: str = ""


def answer_rows(comparison: Comparison) -> list[AnswerRow]:
    """Return the baseline's row, followed by the other arms' rows, sorted by outcome and size of the difference."""
    metric = find_metric(comparison.metric)
    of_arms = {each.arm: each for each in _sort_verdicts(comparison.answer) if each.question.kind == "arm"}
    places = [comparison.baseline, *of_arms]
    measured = [row for row in rate_rows(comparison) if row["set"] == comparison.set]
    measured.sort(key=lambda row: places.index(str(row["arm"])) if row["arm"] in places else len(places))
    return [
        _answer_row(
            str(row["arm"]),
            int(row["n"] or 0),
            metric.spread(value_of(row, metric.name), value_of(row, f"{metric.name}_sd")),
            of_arms.get(str(row["arm"])),
            metric,
        )
        for row in measured
    ]


def effect_rows(comparison: Comparison) -> list[AnswerRow]:
    """Return one row per effect of crossed factors, in the order of the questions; empty if no factors are crossed."""
    effects = [each for each in comparison.answer if each.question.kind != "arm"]
    metric, kinds = find_metric(comparison.metric), {"interaction": "interaction: "}
    return [_answer_row(f"{kinds.get(each.question.kind, '')}{each.arm}", 0, "", each, metric) for each in effects]


def _sort_verdicts(verdicts: Sequence[Verdict]) -> list[Verdict]:
    return sorted(verdicts, key=lambda each: (ORDER.index(each.outcome), -abs(each.difference)))


def _answer_row(name: str, runs: int, rate: str, verdict: Verdict | None, metric: Metric) -> AnswerRow:
    if verdict is None:
        return AnswerRow(name, runs, rate)
    difference = metric.text(verdict.difference, sign=True)
    equal = verdict.outcome in EQUIVALENT
    interval = verdict.equal_interval if equal else verdict.decided
    if interval is None:
        return AnswerRow(name, runs, rate, difference, outcome=verdict.outcome)
    unit, fraction = verdict.scale.metric(metric), verdict.scale.fraction
    low, high = fraction(interval.low), fraction(interval.high)
    difference = unit.text(fraction(interval.value), sign=True)
    if not math.isfinite(high - low):
        return AnswerRow(name, runs, rate, difference, outcome=verdict.outcome)
    level = 100 * (1 - (2 if equal else 1) * verdict.procedure.alpha)
    return AnswerRow(name, runs, rate, difference, format_interval(low, high, unit), level, verdict.outcome)


def answer_tables(comparison: Comparison) -> list[Section]:
    """Return a table with each arm's rate, its difference from the baseline, and the interval behind its verdict.

    Effects of crossed factors get a second table. Columns without any value are omitted.
    """
    rows, effects = answer_rows(comparison), effect_rows(comparison)
    relative = any(verdict.scale is RELATIVE for verdict in comparison.answer)
    to = f"to {comparison.baseline}"
    several = len({row.runs for row in rows}) > 1
    arms: dict[str, Callable[[AnswerRow], str]] = {
        "arm": lambda row: row.name,
        "n": lambda row: str(row.runs) if several else "",
        comparison.design.metric.heading: lambda row: row.rate,
    }
    return [
        _tabulate(rows, arms, relative, to if len(to) <= LONGEST else "to baseline"),
        *([_tabulate(effects, {"effect": arms["arm"]}, relative, "interval")] if effects else []),
    ]


def _tabulate(
    rows: Sequence[AnswerRow], first: Mapping[str, Callable[[AnswerRow], str]], relative: bool, interval: str
) -> Section:
    """Build a table with the columns `first`, then difference, interval, level (if it varies) and verdict."""
    several = len({row.level for row in rows} - {0}) > 1
    columns: dict[str, Callable[[AnswerRow], str]] = {
        **first,
        "difference, %" if relative else "difference": lambda row: row.difference,
        interval: lambda row: row.interval and f"({row.interval})",
        "level": lambda row: f"{row.level:g} %" if several and row.level else "",
        "verdict": lambda row: row.outcome,
    }
    return tabulate("", rows, {head: cell for head, cell in columns.items() if any(map(cell, rows))})


def set_line(comparison: Comparison) -> str:
    """Describe the test set that decides the verdicts: its name, its size, and the number of seeds per arm."""
    if not comparison.set:
        return ""
    rows = [row for row in rate_rows(comparison) if row["set"] == comparison.set and row["n"]]
    decides = f"{comparison.set} decides" if len(comparison.sets) > 1 else comparison.set
    size = [f"{row['utterances']:,} utterances" for row in rows[:1] if isinstance(row["utterances"], int)]
    estimates = [each.estimate for each in comparison.answer if each.estimate is not None and each.estimate.speakers]
    size += [f"{each.speakers} {each.unit}" for each in estimates[:1] if each.unit in ("speakers", "voices")]
    counts = sorted({int(row["n"] or 0) for row in rows})
    seeds = f"{' to '.join(dict.fromkeys(map(str, (counts[0], counts[-1]))))} seeds per arm" if counts else ""
    return f"{decides}: {'; '.join(filter(None, [', '.join(size), 'one seed per arm' if counts == [1] else seeds]))}"


def finding_lines(comparison: Comparison) -> list[str]:
    """Return one sentence per verdict; if there are over SENTENCES, group them by outcome and add notes on the runs."""
    answer, metric = comparison.answer, find_metric(comparison.metric)
    asked = {name for verdict in answer for name in verdict.question.weights}
    ends = [f"{note}." for note in training_end_notes([arm for arm in comparison.arms if arm.name in asked])]
    if len(answer) <= SENTENCES:
        return [*(verdict.sentence for verdict in answer), *ends]
    groups: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in _sort_verdicts(answer):
        groups.setdefault(_group_of(verdict, metric), []).append(verdict)
    lines = []
    for (start, end), verdicts in groups.items():
        if verdicts[0].outcome in ("not shown", "no interaction shown"):
            end = power_text(verdicts, metric)
        named = f"{start}: {', '.join(verdict.arm for verdict in verdicts)}"
        lines.append(" ".join(f"{text}." for text in (named, end) if text))
    noise = seed_noise_text(comparison.evidence, comparison.arms, comparison.design)
    undecided = any(verdict.outcome == "undecided" for verdict in answer)
    warned = {shared_start(arm) for arm in comparison.arms if arm.name in asked}  # notes that are also warnings
    notes = [note for verdict in answer for note in (scope_text(verdict), *notes_on_runs(verdict, comparison.arms))]
    notes = [note for note in dict.fromkeys([noise * undecided, *notes]) if note and note not in warned]
    return [*lines, *(f"{note}." for note in notes), *ends]


def _group_of(verdict: Verdict, metric: Metric) -> tuple[str, str]:
    """Return the heading of the group to which a verdict belongs, and the sentence that follows the group's arms."""
    if verdict.outcome in SHOWN:
        return verdict.outcome.capitalize(), grade_text(verdict, metric)
    if verdict.outcome in EQUIVALENT:
        return f"{verdict.outcome.capitalize()} within {margin_text(verdict, metric)}", ""
    if verdict.outcome not in ("open", "undecided"):
        return verdict.outcome.capitalize(), ""
    start = "Not decided yet" if verdict.outcome == "open" else "Undecided"
    after = "" if verdict.look is None else f" after {verdict.look.runs} seeds per arm"
    if verdict.reason:
        return f"{start}{after}, because {verdict.reason}", ""
    return f"{start}{after}", "The sweep continues" if verdict.outcome == "open" else lever_text(verdict)


def evidence_lines(comparison: Comparison) -> list[str]:
    """Return sentences that explain what the intervals cover, which test was used, and why."""
    answer, evidence = comparison.answer, comparison.evidence
    tested = [verdict for verdict in answer if verdict.estimate is not None and not verdict.reason]
    if not answer:
        return []
    look = f" (look {evidence.look})" if evidence.look > 1 else ""
    reason = f"{evidence.procedure.test}: {evidence.reason}{look}."
    if not tested:
        return [reason]
    levels = " or ".join(
        f"{level:g} %"
        for level in sorted({row.level for row in [*answer_rows(comparison), *effect_rows(comparison)]} - {0})
    )
    family = tested[0].family
    parts = [f"corrected for {family} comparisons (Holm)" if family > 1 else "", _describe_coverage(tested[0])]
    hashes = {run.data.hash("train") for run in comparison.runs}
    corpus = "" if len(hashes) > 1 or None in hashes else "; the training corpus is fixed"
    relative = "Relative differences. " if tested[0].scale is RELATIVE else ""
    return [f"{relative}Intervals: {levels}, {', '.join(filter(None, parts))}{corpus}.", reason]


def _describe_coverage(verdict: Verdict) -> str:
    """Describe which variation, such as new seeds or new speakers, a verdict's interval covers."""
    estimate, units = verdict.estimate, units_text(verdict)
    assert estimate is not None
    if estimate.paired and not estimate.speakers:
        return "over new pairs of runs, each with its own test speakers"
    if estimate.paired and estimate.models == 1:
        return f"over new {units}, not over new training runs"
    return f"over new seeds and new {units}" if estimate.speakers else "over new seeds, not over new speakers"

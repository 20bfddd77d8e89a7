"""The sections of a report, in reading order."""

from collections.abc import Callable, Sequence
from typing import Any

from asr_verdicts.comparison import Comparison
from asr_verdicts.metrics import CER_LONGER, SHARE, Metric, find_metric, format_interval, format_p
from asr_verdicts.one_arm import Description, descriptions, lone_rates
from asr_verdicts.report.answer import evidence_lines
from asr_verdicts.report.looks import cost_section, looks_section
from asr_verdicts.report.section import Section, number, spread, tabulate
from asr_verdicts.scales import RELATIVE
from asr_verdicts.sentences import units_text
from asr_verdicts.table_columns import RATE_COLUMNS, Column, TableRow, rate_rows, validation_rows, value_of
from asr_verdicts.verdict import Verdict


def verdict_sections(comparison: Comparison) -> list[Section]:
    """Return the sections that apply to systems from any toolkit, including empty sections."""
    return [
        *opening_sections(comparison),
        *rate_sections(comparison),
        evidence_section(comparison),
        *closing_sections(comparison),
    ]


def opening_sections(comparison: Comparison) -> list[Section]:
    """Return the first sections: differences, verdicts, arms' changes, looks, their cost, and statistics of one arm."""
    changes = comparison.design.layout.changes
    return [
        difference_section(comparison),
        Section("Verdicts", lines=[verdict.sentence for verdict in comparison.answer]),
        Section("Error rate of the arm", lines=[lone.sentence for lone in lone_rates(comparison)]),
        Section("Arms", ["arm", "changes"], [[arm, text] for arm, text in changes.items()]),
        looks_section(comparison),
        cost_section(comparison),
        description_section(comparison),
    ]


def closing_sections(comparison: Comparison) -> list[Section]:
    """Return the last two sections: warnings and unfinished runs."""
    return [
        Section("Warnings", lines=comparison.warnings),
        Section("Not finished", lines=[f"{run.folder.name}: {run.reason}" for run in comparison.unfinished]),
    ]


def rate_sections(comparison: Comparison) -> list[Section]:
    """Return two sections with error rates, on the test sets and on the validation sets."""
    seeds = "mean ± standard deviation over seeds"
    note = "These sets steered training, for example the choice of best.ckpt, so they get no verdicts."
    of = "" if comparison.scored else " of the last weights"
    return [
        _rate_section(f"Error rates{of}, {seeds}", rate_rows(comparison), comparison.metric, []),
        _rate_section(
            f"Error rates on validation sets, {seeds}", validation_rows(comparison), comparison.metric, [note]
        ),
    ]


def _rate_section(heading: str, measured: list[TableRow], metric: str, notes: list[str]) -> Section:
    columns = [
        column
        for column in shown_columns(RATE_COLUMNS, measured)
        if column.key != CER_LONGER.name or metric == CER_LONGER.name  # every run records it, but few readers need it
    ]
    rows = [
        [str(row["arm"]), str(row["set"]), str(row["n"]), *(cell_text(row, column) for column in columns)]
        for row in measured
    ]
    return Section(heading, ["arm", "set", "n", *(column.heading for column in columns)], rows, notes if rows else [])


def shown_columns(columns: Sequence[Column], rows: list[TableRow]) -> list[Column]:
    """Return the columns with a heading that are always shown or have a value in some row."""
    headed = [column for column in columns if column.heading]
    return [column for column in headed if column.always or any(row[column.key] is not None for row in rows)]


def cell_text(row: TableRow, column: Column) -> str:
    value, deviation = value_of(row, column.key), value_of(row, f"{column.key}_sd")
    if column.metric is not None:
        return column.metric.spread(value, deviation)
    return spread(value, deviation, column.places) if column.deviation else number(value, column.places)


def difference_section(comparison: Comparison) -> Section:
    """Return a section with the differences on all test sets, their intervals and their verdicts."""
    metric = find_metric(comparison.metric)
    return tabulate(
        f"Differences to {comparison.baseline}",
        comparison.verdicts,
        {
            "arm": lambda verdict: verdict.arm,
            "set": lambda verdict: verdict.set,
            f"{metric.label} difference": lambda verdict: metric.text(verdict.difference, sign=True),
            "interval": lambda verdict: format_interval(verdict.low, verdict.high, metric),
            "relative": relative_text,
            "verdict": lambda verdict: verdict.outcome,
        },
        [*evidence_lines(comparison), *_describing_sets(comparison)],
    )


def description_section(comparison: Comparison) -> Section:
    """Return a section with a single arm's mean, deviation, best and worst run; empty if arms are compared."""
    columns: dict[str, Callable[[Description], str]] = {
        "metric": lambda row: row.metric.heading,
        "set": lambda row: row.set,
        "n": lambda row: str(row.spread.runs),
        "mean": lambda row: row.metric.text(row.spread.mean),
        "sd": lambda row: row.metric.text(read_path(row, "spread.deviation.value")),
        "sd, 95 %": lambda row: (
            "NA"
            if (deviation := row.spread.deviation) is None
            else f"{row.metric.text(deviation.low)} to {row.metric.text(deviation.high)}"
        ),
        "best": lambda row: row.metric.text(row.spread.best),
        "worst": lambda row: row.metric.text(row.spread.worst),
    }
    line = (
        "The last weights of runs that differ only in the seed; rates in percent, losses in nats. Chance alone "
        "separates two such runs, so a difference between single runs of other arms means little below twice the sd."
    )
    lost = [f"{len(arm.diverged)} of {len(arm.results)} runs diverged." for arm in comparison.arms if arm.diverged]
    return tabulate("One arm over seeds", descriptions(comparison), columns, [line, *lost])


def evidence_section(comparison: Comparison) -> Section:
    """Return a section with the numbers behind the verdicts. docs/statistics.md defines the table's columns."""
    metric = find_metric(comparison.metric)

    def format_error(part: str) -> Callable[[Verdict], str]:
        return lambda verdict: metric.text(read_path(verdict, f"estimate.{part}.standard_error"))

    def format_detectable(verdict: Verdict) -> str:
        if (range_ := verdict.detectable) is None:
            return "NA"
        return f"{metric.text(range_.value)} ({metric.text(range_.low)} to {metric.text(range_.high)})"

    lines = [
        "An interval excludes 0 exactly if a difference is shown. SE: the standard error over seeds alone and over "
        "speakers alone. Detectable: the true difference that would be shown with a power of 80 %, with its 90 % "
        "interval. Matched pairs (MAPSSWE) are about these models alone.",
        *(line for verdict in comparison.answer if (line := _describe_levers(verdict, metric))),
        *_describe_repetition(comparison.answer),
    ]
    columns: dict[str, Callable[[Verdict], str]] = {
        "arm": lambda verdict: verdict.arm,
        "set": lambda verdict: verdict.set,
        "p": lambda verdict: format_p(verdict.p),
        "Holm": lambda verdict: format_p(verdict.p_adjusted),
        "SE seeds": format_error("over_seeds"),
        "SE speakers": format_error("over_speakers"),
        "detectable": format_detectable,
        "matched pairs p": lambda verdict: format_p(verdict.p_pairs_holm),
    }
    return tabulate("Evidence", comparison.verdicts, columns, lines)


def read_path(node: Any, path: str) -> Any:
    """Return the attribute of `node` at a dotted path; None if an attribute along the path is None."""
    for name in path.split("."):
        node = None if node is None else getattr(node, name)
    return node


def relative_text(verdict: Verdict) -> str:
    """Format the relative difference and its interval, or "not shown" if only the difference in points is shown."""
    if (relative := verdict.relative) is None:
        return "NA"
    if verdict.outcome in ("worse", "better") and relative.low < 0 < relative.high:
        return "not shown"
    low, value, high = (RELATIVE.fraction(end) for end in (relative.low, relative.value, relative.high))
    ends = format_interval(low, high, SHARE, otherwise="")
    return f"{SHARE.text(value, sign=True)} %{ends and f' ({ends})'}"


def _describing_sets(comparison: Comparison) -> list[str]:
    """Return a sentence that lists the test sets that do not decide the verdicts; empty if there are none."""
    others = list(dict.fromkeys(contrast.set for contrast in comparison.verdicts if not contrast.primary))
    return (
        [f"{comparison.set} decides; {' and '.join(others)} only describe{'s' * (len(others) == 1)}."] if others else []
    )


def _describe_levers(verdict: Verdict, metric: Metric) -> str | None:
    """Describe how many seeds or speakers would detect true differences of 0.5, 1 and 2 points; None if unknown."""
    if not metric.is_rate or not verdict.levers:
        return None
    units = f"test {units_text(verdict)}"
    parts = []
    for size, levers in verdict.levers.items():
        if levers.cheaper == "none":
            parts.append(f"{metric.text(size)}: these runs are enough")
            continue
        ways = [
            f"{count:,} {name}"
            for count, name in ((levers.seeds, "seeds per arm"), (levers.speakers, units))
            if count is not None
        ]
        parts.append(f"{metric.text(size)}: {' or '.join(ways) or f'more seeds and more {units}'}")
    return f"{verdict.arm}, to detect a true difference of {'; '.join(parts)}."


def _describe_repetition(answer: Sequence[Verdict]) -> list[str]:
    """Describe how likely new seeds are to repeat each verdict. Verdicts at planned looks are left out."""
    chances = [(verdict.arm, verdict.again) for verdict in answer if verdict.look is None]
    texts = [f"{arm} {chance}" for arm, chance in chances if chance]
    return [f"Chance of the same verdict from as many new seeds on this test set: {', '.join(texts)}."] if texts else []

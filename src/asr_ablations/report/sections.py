"""A comparison as sections, in the order of reading."""

import math
from collections.abc import Sequence

from asr_ablations.comparison.contrast import Verdict
from asr_ablations.comparison.metrics import CER_LONGER, Metric, find_metric
from asr_ablations.comparison.result import Comparison
from asr_ablations.comparison.same_hour import WARNING, of_one_hour
from asr_ablations.comparison.table_columns import COLUMNS, TRAIN_SECONDS, Column, TableRow, value_of
from asr_ablations.comparison.verdict import units_text
from asr_ablations.report.looks import cost_section, looks_section
from asr_ablations.report.section import Section, number, spread
from asr_ablations.report.tables import (
    description_section,
    epochs_section,
    equal_cost_section,
    frequency_section,
    gradient_section,
    interval_text,
    loss_section,
    noise_section,
    scaling_section,
    search_section,
    time_to_accuracy_section,
)


def sections(comparison: Comparison) -> list[Section]:
    """All sections that are not empty, in the order of reading."""
    all_sections = [
        Section("Verdicts", lines=[verdict.sentence for verdict in comparison.answer]),
        Section("Error rate of the arm", lines=[lone.sentence for lone in comparison.lone_rates]),
        Section("Arms", ["arm", "changes"], [[arm, changes] for arm, changes in comparison.changes.items()]),
        Section("Keys that differ", lines=[difference.text for difference in comparison.differences]),
        looks_section(comparison),
        cost_section(comparison),
        description_section(comparison),
        noise_section(comparison),
        search_section(comparison),
        *_results(comparison),
        _training(comparison),
        _differences(comparison),
        frequency_section(comparison),
        loss_section(comparison),
        gradient_section(comparison),
        time_to_accuracy_section(comparison),
        equal_cost_section(comparison),
        epochs_section(comparison),
        scaling_section(comparison),
        Section("Warnings", lines=comparison.warnings),
        Section("Not finished", lines=[f"{run.folder.name}: {run.reason}" for run in comparison.unfinished]),
    ]
    return [section for section in all_sections if section.rows or section.lines]


def _results(comparison: Comparison) -> list[Section]:
    seeds = "mean ± standard deviation over seeds"
    note = "Training was steered by these sets, the epoch of best.ckpt for one: there are no verdicts on them."
    of = "" if comparison.scored else " of the last weights"
    return [
        _rates(f"Error rates{of}, {seeds}", comparison.rows, comparison.metric, []),
        _rates(f"Error rates on validation sets, {seeds}", comparison.validated, comparison.metric, [note]),
    ]


def _rates(heading: str, measured: list[TableRow], metric: str, notes: list[str]) -> Section:
    columns = [
        column
        for column in _shown("rates", measured)
        if column.key != CER_LONGER.name or metric == CER_LONGER.name  # known of every run, asked for by few
    ]
    rows = [
        [str(row["arm"]), str(row["set"]), str(row["n"]), *(_cell(row, column) for column in columns)]
        for row in measured
    ]
    return Section(heading, ["arm", "set", "n", *(column.heading for column in columns)], rows, notes if rows else [])


def _training(comparison: Comparison) -> Section:
    if not any(
        row[column.key] is not None for row in comparison.rows for column in COLUMNS if column.table == "training"
    ):
        return Section("Training")  # of systems that were trained elsewhere nothing is known
    columns = _shown("training", comparison.rows)
    timed = of_one_hour(comparison.arms)
    rows = {
        row["arm"]: [
            str(row["arm"]),
            str(row["n"]),
            *(_cell(row, column) if timed or column.key != TRAIN_SECONDS else "–" for column in columns),
        ]
        for row in comparison.rows
    }
    head = ["arm", "n", *(column.heading for column in columns)]
    return Section("Training", head, list(rows.values()), [] if timed or not rows else [f"train s: {WARNING}."])


def _shown(table: str, rows: list[TableRow]) -> list[Column]:
    of_table = [column for column in COLUMNS if column.table == table]
    return [column for column in of_table if column.always or any(row[column.key] is not None for row in rows)]


def _cell(row: TableRow, column: Column) -> str:
    value, deviation = value_of(row, column.key), value_of(row, f"{column.key}_sd")
    if column.metric is not None:
        return column.metric.spread(value, deviation)
    return spread(value, deviation, column.places) if column.deviation else number(value, column.places)


def _differences(comparison: Comparison) -> Section:
    """The numbers behind the verdicts. Definitions of all columns stand in docs/statistics.md."""
    metric = find_metric(comparison.metric)
    head = [
        "arm", "set", f"{metric.label} difference", "interval", "verdict", "p", "Holm", "SE seeds", "SE speakers",
        "detectable", "matched pairs p",
    ]  # fmt: skip
    rows = [_difference(verdict, metric) for verdict in comparison.verdicts]
    lines = [
        f"{comparison.evidence.test}: {comparison.evidence.reason} (look {comparison.evidence.look}).",
        "The interval is at the level of the verdict, so that it excludes 0 exactly where a difference is shown. SE: "
        "the standard error over seeds and over speakers, each alone. Detectable: the true difference that such runs "
        "find in four cases of five, with its 90 % interval. Matched pairs (MAPSSWE): of these models alone.",
        *_described(comparison),
        *(line for verdict in comparison.answer if (line := _levers(verdict, metric))),
        *_repeated(comparison.answer),
    ]
    return Section(f"Differences to {comparison.baseline}", head, rows, lines if rows else [])


def _difference(verdict: Verdict, metric: Metric) -> list[str]:
    contrast, estimate = verdict.contrast, verdict.contrast.estimate
    parts = (None, None) if estimate is None else (estimate.over_seeds, estimate.over_speakers)
    found = contrast.detectable
    return [
        contrast.arm,
        contrast.set,
        metric.text(contrast.difference, sign=True),
        interval_text(verdict),
        verdict.outcome,
        _p(contrast.p),
        _p(contrast.p_adjusted),
        *(metric.text(None if part is None else part.standard_error) for part in parts),
        "NA"
        if found is None
        else f"{metric.text(found.value)} ({metric.text(found.low)} to {metric.text(found.high)})",
        _p(contrast.p_pairs_holm),
    ]


def _described(comparison: Comparison) -> list[str]:
    """The sets that only describe."""
    others = list(dict.fromkeys(contrast.set for contrast in comparison.contrasts if not contrast.primary))
    return [f"{comparison.set} decides; {' and '.join(others)} describe{'s' * (len(others) == 1)}."] if others else []


def _levers(verdict: Verdict, metric: Metric) -> str | None:
    """The seeds and speakers that would find differences of 0.5, 1 and 2 points."""
    if not metric.is_rate or not verdict.contrast.levers:
        return None
    units = f"test {units_text(verdict.contrast)}"
    parts = []
    for size, levers in verdict.contrast.levers.items():
        if levers.cheaper == "none":
            parts.append(f"{metric.text(size)}: these runs are enough")
            continue
        ways = [
            f"{count:,} {name}"
            for count, name in ((levers.seeds, "seeds an arm"), (levers.speakers, units))
            if count is not None
        ]
        parts.append(f"{metric.text(size)}: {' or '.join(ways) or f'more seeds and more {units}'}")
    return f"{verdict.contrast.arm}, to find a true difference of {'; '.join(parts)}."


def _repeated(answer: Sequence[Verdict]) -> list[str]:
    """How likely each verdict of a sweep without a plan would come again."""
    chances = [(verdict.contrast.arm, verdict.contrast.again) for verdict in answer if verdict.contrast.look is None]
    known = [f"{arm} {chance}" for arm, chance in chances if chance]
    return [f"The same verdict from as many fresh seeds on this test set: {', '.join(known)}."] if known else []


def _p(p: float | None) -> str:
    return "NA" if p is None or math.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"

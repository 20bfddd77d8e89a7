"""The report on trainings: what is known of any systems, and what only trainings have."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from asr_ablations.comparison.derived_tables import gradients, loss_against_wer, noise_sources
from asr_ablations.comparison.time_to_accuracy import at_equal_cost, times_to_accuracy
from asr_ablations.comparison.training_times import epoch_times, scaling
from asr_ablations.report.training_tables import (
    TIMES,
    TRAINING_COLUMNS,
    epochs_section,
    equal_cost_section,
    frequency_section,
    gradient_section,
    keys_section,
    loss_section,
    noise_section,
    scaling_section,
    search_section,
    time_to_accuracy_section,
    training_section,
)
from asr_verdicts.comparison import Comparison
from asr_verdicts.files import Json
from asr_verdicts.report.document import Report, report_verdicts, verdict_content
from asr_verdicts.report.looks import spent_by
from asr_verdicts.report.section import Section
from asr_verdicts.report.sections import closing_sections, evidence_section, opening_sections, rate_sections
from asr_verdicts.table_columns import RATE_COLUMNS, TableRow, rate_rows, validation_rows

REACHED_TIMES = ("seconds", "cost")
SPENT_TIMES = ("hours", "untimed", "hours_saved", "hours_taken_over")


def report_comparison(comparison: Comparison) -> Report:
    """The report: of systems given by their hypotheses what is known of them, of runs everything."""
    if comparison.scored:
        return report_verdicts(comparison)
    noise, ranking = noise_section(comparison), search_section(comparison)
    return Report(
        comparison,
        sections(comparison),
        _rows(comparison),
        _content(comparison),
        _timing(comparison),
        answer=[noise] if noise.rows else [],
        ranking=ranking if ranking.rows else None,
    )


def sections(comparison: Comparison) -> list[Section]:
    """All sections that are not empty, in the order of reading."""
    every = [
        *opening_sections(comparison),
        keys_section(comparison),
        noise_section(comparison),
        search_section(comparison),
        *rate_sections(comparison),
        training_section(comparison),
        evidence_section(comparison),
        frequency_section(comparison),
        loss_section(comparison),
        gradient_section(comparison),
        time_to_accuracy_section(comparison),
        equal_cost_section(comparison),
        epochs_section(comparison),
        scaling_section(comparison),
        *closing_sections(comparison),
    ]
    return [section for section in every if section.rows or section.lines]


def _rows(comparison: Comparison) -> list[TableRow]:
    return rate_rows(comparison, [*RATE_COLUMNS, *TRAINING_COLUMNS])


def _content(comparison: Comparison) -> Json:
    """comparison.json, without times."""
    spent = spent_by(comparison)
    validated = validation_rows(comparison, [*RATE_COLUMNS, *TRAINING_COLUMNS])
    equal = at_equal_cost(comparison.arms, comparison.design.metric)
    return {
        **verdict_content(comparison),
        "rows": [_without(TIMES, row) for row in _rows(comparison)],
        "validated": [_without(TIMES, row) for row in validated],
        "reached": [_without(REACHED_TIMES, asdict(time)) for time in times_to_accuracy(comparison)],
        "equal": [row for row in equal if row["axis"] != "seconds"],
        "noise_sources": [asdict(row) for row in noise_sources(comparison)],
        "loss_against_wer": [asdict(each) for each in loss_against_wer(comparison.arms, comparison.sets)],
        "gradient_norm": [asdict(row) for row in gradients(comparison.arms)],
        "spent": None if spent is None else _without((*SPENT_TIMES, "plan"), vars(spent)),
    }


def _timing(comparison: Comparison) -> Json:
    """timing.json: times, and what follows from them: costs, ratios, and rates at equal seconds."""
    arms = {row["arm"]: row for row in _rows(comparison)}
    equal = at_equal_cost(comparison.arms, comparison.design.metric)
    spent = spent_by(comparison)
    return {
        "arms": [{key: row[key] for key in ("arm", *TIMES)} for row in arms.values()],
        "reached": [
            _without(("steps", "audio_hours", "epochs"), asdict(time)) for time in times_to_accuracy(comparison)
        ],
        "equal": [row for row in equal if row["axis"] == "seconds"],
        "epochs": [asdict(times) for times in epoch_times(comparison.arms, comparison.baseline)],
        "scaling": [asdict(row) for row in scaling(comparison.arms)],
        "spent": None if spent is None else {key: getattr(spent, key) for key in SPENT_TIMES},
    }


def _without(keys: Sequence[str], row: Mapping[str, object]) -> Json:
    return {key: value for key, value in row.items() if key not in keys}

"""The report on a comparison, which is printed, written to files and shown on a web page."""

import math
from dataclasses import asdict, dataclass, field

from asr_verdicts.arms import Arm
from asr_verdicts.comparison import Comparison
from asr_verdicts.files import Json
from asr_verdicts.one_arm import descriptions, lone_rates
from asr_verdicts.report.looks import look_rows, plan_row
from asr_verdicts.report.section import Section
from asr_verdicts.report.sections import read_path, verdict_sections
from asr_verdicts.scales import MOST_LOG
from asr_verdicts.table_columns import TableRow, rate_rows, validation_rows
from asr_verdicts.verdict import Verdict

# columns of a verdict's row in comparison.json, as `name` or `name=path`; `path` is an attribute path in a Verdict
COLUMNS = (
    "arm", "baseline", "kind=question.kind", "set", "metric", "primary",
    "baseline_mean=baseline_rate", "arm_mean=rate", "difference", "low", "high", "level",
    "relative=relative.value", "relative_low=relative.low", "relative_high=relative.high",
    "scale=scale.name", "margin", "grade", "superiority", "outcome", "verdict=sentence",
    "procedure=procedure.name", "p", "p_adjusted", "family", "seeds", "failed", "diverged",
    "degrees=estimate.degrees", "standard_error=estimate.standard_error",
    "error_over_seeds=estimate.over_seeds.standard_error",
    "error_over_speakers=estimate.over_speakers.standard_error",
    "speakers=estimate.speakers", "effective_speakers=estimate.effective", "unit=estimate.unit",
    "paired=estimate.paired", "trimmed=estimate.trimmed",
    "detectable=detectable.value", "repeated", "p_pairs", "p_pairs_holm",
)  # fmt: skip


@dataclass(frozen=True)
class Report:
    """A comparison with the tables, sentences and file contents that report it.

    - sections: nonempty sections, in reading order
    - rows: rows of table.csv
    - content: contents of comparison.json, which depend only on the results: equal results give identical files
    - timing: contents of timing.json; None if no times are known
    - answer: tables that the terminal shows between the table of arms and the verdicts
    - ranking: table that the terminal shows instead of the table of arms
    """

    comparison: Comparison
    sections: list[Section]
    rows: list[TableRow]
    content: Json
    timing: Json | None = None
    answer: list[Section] = field(default_factory=list)
    ranking: Section | None = None


def report_verdicts(comparison: Comparison) -> Report:
    """Return the report on a comparison of systems for which only hypotheses are given."""
    sections = [section for section in verdict_sections(comparison) if section.rows or section.lines]
    return Report(comparison, sections, rate_rows(comparison), verdict_content(comparison))


def verdict_content(comparison: Comparison) -> Json:
    """Return the contents of comparison.json, except for values that only run folders contain."""
    layout, evidence = comparison.design.layout, comparison.evidence
    return {
        "title": comparison.title,
        "question": comparison.question,
        "source": layout.declared.source,
        "factor": layout.factor,
        "baseline": comparison.baseline,
        "arms": [{"name": arm.name, "runs": _list_runs(arm, comparison.scored)} for arm in comparison.arms],
        "sets": comparison.sets,
        "rows": rate_rows(comparison),
        "validated": validation_rows(comparison),
        "differences": [contrast_row(verdict) for verdict in comparison.verdicts],
        "verdicts": [verdict.sentence for verdict in comparison.answer],
        "warnings": comparison.warnings,
        "unfinished": [
            {"folder": run.folder.name, "state": run.state, "reason": run.reason} for run in comparison.unfinished
        ],
        "differing": layout.differing,
        "metric": comparison.metric,
        "set": comparison.set,
        "evidence": {"test": evidence.procedure.test, "reason": evidence.reason, "look": evidence.look},
        "scored": comparison.scored,
        "lone_rates": [asdict(lone) for lone in lone_rates(comparison)],
        "one_arm": [asdict(description) for description in descriptions(comparison)],
        "allowed": list(layout.overruled),
        "plan": plan_row(comparison),
        "looks": look_rows(comparison),
    }


def _list_runs(arm: Arm, scored: str) -> list[Json]:
    """Return an arm's runs, each with its seed, its id, and its folder name or hypothesis file."""
    return [
        {"folder": run.folder if scored else run.folder.name, "seed": run.seed, "id": run.summary.id}
        for run in arm.runs
    ]


def contrast_row(verdict: Verdict) -> Json:
    """Return a verdict's row in comparison.json, with rates as fractions.

    - low, high: interval of the difference; None if there is no interval
    - relative: difference as a fraction of the baseline's rate
    - margin: equivalence margin, on the scale that `scale` names
    - superiority: share of pairs of runs in which the arm beats the baseline
    """
    row = {name: read_path(verdict, path or name) for name, _, path in (column.partition("=") for column in COLUMNS)}
    if (relative := verdict.relative) is not None:  # a difference of logarithms of rates
        row |= {"relative": math.expm1(relative.value)}
        row |= {"relative_low": _ratio(relative.low), "relative_high": _ratio(relative.high)}
    return row


def _ratio(logarithm: float) -> float | None:
    return math.expm1(logarithm) if logarithm < MOST_LOG else None

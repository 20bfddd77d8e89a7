"""A comparison in the form that the terminal, files and a page show."""

from dataclasses import asdict, dataclass, field

from asr_verdicts.arms import Arm
from asr_verdicts.comparison import Comparison
from asr_verdicts.files import Json
from asr_verdicts.one_arm import descriptions, lone_rates
from asr_verdicts.report.looks import look_rows, plan_row
from asr_verdicts.report.section import Section
from asr_verdicts.report.sections import verdict_sections
from asr_verdicts.report.tables import contrast_row
from asr_verdicts.table_columns import TableRow, rate_rows, validation_rows


@dataclass(frozen=True)
class Report:
    """A report on a comparison.

    - sections: in the order of reading, none empty; rows: of table.csv
    - content: of comparison.json; it depends on the results alone, so the same training measured elsewhere gives the
      same bytes; timing: of timing.json, None if no times are known
    - answer: tables that the terminal shows with the verdicts; ranking: a table that it shows instead of the arms
    """

    comparison: Comparison
    sections: list[Section]
    rows: list[TableRow]
    content: Json
    timing: Json | None = None
    answer: list[Section] = field(default_factory=list)
    ranking: Section | None = None


def report_verdicts(comparison: Comparison) -> Report:
    """The report on systems that are known by their hypotheses only."""
    sections = [section for section in verdict_sections(comparison) if section.rows or section.lines]
    return Report(comparison, sections, rate_rows(comparison), verdict_content(comparison))


def verdict_content(comparison: Comparison) -> Json:
    """The content of comparison.json: everything except the runs' records, which are in their own folders."""
    layout, evidence = comparison.design.layout, comparison.evidence
    return {
        "title": comparison.title,
        "question": comparison.question,
        "source": layout.declared.source,
        "factor": layout.factor,
        "baseline": comparison.baseline,
        "arms": [_arm_content(arm, comparison.scored) for arm in comparison.arms],
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


def _arm_content(arm: Arm, scored: str) -> Json:
    """The name and the runs of an arm: by folder name, or by the file of hypotheses as given."""
    runs = [
        {"folder": run.folder if scored else run.folder.name, "seed": run.seed, "id": run.summary.id}
        for run in arm.runs
    ]
    return {"name": arm.name, "runs": runs}

"""Format a report as Markdown."""

from collections.abc import Sequence

from asr_verdicts.comparison import Comparison
from asr_verdicts.report.document import Report
from asr_verdicts.report.section import Section


def markdown(report: Report) -> str:
    """Return the whole report as a Markdown document."""
    parts = [f"# {report.comparison.title}", *preamble(report.comparison)]
    for section in report.sections:
        parts += [f"## {section.heading}", *body(section)]
    return "\n\n".join(parts) + "\n"


def preamble(comparison: Comparison) -> list[str]:
    """Return paragraphs on the question, its source, how hypotheses were scored, the factor and the baseline."""
    question = [comparison.question] if comparison.question else []
    source = [f"Source: {comparison.design.layout.declared.source}"] if comparison.design.layout.declared.source else []
    factor = ", ".join(comparison.design.layout.factor) or "none"
    scored = [f"{comparison.scored}."] if comparison.scored else []
    return [*question, *source, *scored, f"Factor: `{factor}`; baseline: {comparison.baseline}."]


def body(section: Section) -> list[str]:
    """Return a section's table with its lines below, or the lines as a Markdown list if there is no table."""
    if not section.rows:
        return ["\n".join(f"- {line}" for line in section.lines)] if section.lines else []
    return [table(section.head, section.rows), *(["\n".join(section.lines)] if section.lines else [])]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table with a left-aligned first column and right-aligned other columns."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)

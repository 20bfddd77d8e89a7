"""A comparison in Markdown."""

from collections.abc import Sequence

from asr_verdicts.comparison import Comparison
from asr_verdicts.report.document import Report
from asr_verdicts.report.section import Section


def markdown(report: Report) -> str:
    """The whole report in Markdown."""
    parts = [f"# {report.comparison.title}", *preamble(report.comparison)]
    for section in report.sections:
        parts += [f"## {section.heading}", *body(section)]
    return "\n\n".join(parts) + "\n"


def preamble(comparison: Comparison) -> list[str]:
    """Paragraphs with the question, the source, the factor and the baseline."""
    question = [comparison.question] if comparison.question else []
    source = [f"Source: {comparison.design.layout.declared.source}"] if comparison.design.layout.declared.source else []
    factor = ", ".join(comparison.design.layout.factor) or "none"
    scored = [f"{comparison.scored}."] if comparison.scored else []
    return [*question, *source, *scored, f"Factor: `{factor}`; baseline: {comparison.baseline}."]


def body(section: Section) -> list[str]:
    """The table of a section with its lines as a note, or without a table the lines as a list."""
    if not section.rows:
        return ["\n".join(f"- {line}" for line in section.lines)] if section.lines else []
    return [table(section.head, section.rows), *(["\n".join(section.lines)] if section.lines else [])]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A pipe table, with the first column aligned left and the others right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)

"""A comparison in Markdown."""

from asr_ablations.comparison.result import Comparison
from asr_ablations.report.sections import Section, sections


def markdown(comparison: Comparison, level: int = 1) -> str:
    """The whole page; level: of its first heading."""
    parts = [f"{'#' * level} {comparison.title}", *asked(comparison)]
    for section in sections(comparison):
        parts += [f"{'#' * (level + 1)} {section.heading}", *_body(section)]
    return "\n\n".join(parts) + "\n"


def asked(comparison: Comparison) -> list[str]:
    """Question, source, factor, baseline as paragraphs."""
    question = [comparison.question] if comparison.question else []
    source = [f"Source: {comparison.source}"] if comparison.source else []
    factor = ", ".join(comparison.factor) or "none"
    return [*question, *source, f"Factor: `{factor}`; baseline: {comparison.baseline}."]


def _body(section: Section) -> list[str]:
    parts = [table(section.head, section.rows)] if section.rows else []
    return [*parts, *([paragraph(section)] if section.lines else [])]


def paragraph(section: Section) -> str:
    """A note below a table, a list elsewhere."""
    return "\n".join(section.lines if section.rows else [f"- {line}" for line in section.lines])


def table(head: list[str], rows: list[list[str]]) -> str:
    """A pipe table; the first column to the left, the others to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)

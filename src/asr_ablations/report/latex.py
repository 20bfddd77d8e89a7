"""The tables of a comparison in LaTeX, for `booktabs`."""

import re

from asr_ablations.comparison.result import Comparison
from asr_ablations.report.section import Section
from asr_ablations.report.sections import sections

SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "×": r"$\times$", "<": r"$<$", ">": r"$>$",
    "−": "$-$",
}  # fmt: skip


def latex(comparison: Comparison) -> str:
    """A table environment for every table, to be included with \\input."""
    return "\n".join(_table(section) for section in sections(comparison) if section.rows)


def escape(text: str) -> str:
    """The text in a form that LaTeX prints literally."""
    return re.sub("|".join(map(re.escape, SPECIAL)), lambda match: SPECIAL[match.group()], text)


def _table(section: Section) -> str:
    def line(cells: list[str]) -> str:
        return " & ".join(map(escape, cells)) + r" \\"

    columns = "l" + "r" * (len(section.head) - 1)
    body = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", line(section.head), r"\midrule"]
    body += [*map(line, section.rows), r"\bottomrule", r"\end{tabular}"]
    parts = [r"\begin{table}", r"\centering", rf"\caption{{{escape(section.heading)}}}", *body, r"\end{table}", ""]
    return "\n".join(parts)

"""Format a comparison as LaTeX with `booktabs`: one table for a paper, and all tables for the paper's appendix."""

import re
from collections.abc import Iterable, Sequence

from asr_verdicts.comparison import Comparison
from asr_verdicts.metrics import Metric, find_metric, format_interval
from asr_verdicts.report.document import Report
from asr_verdicts.report.section import Section
from asr_verdicts.table_columns import TableRow, rate_rows, value_of
from asr_verdicts.terminal import harmless
from asr_verdicts.verdict import EQUIVALENT, SHOWN, Verdict

SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "×": r"$\times$", "<": r"$<$", ">": r"$>$",
    "−": "$-$", "–": "--", "α": r"$\alpha$", "[": "{[}", "]": "{]}",
}  # fmt: skip
HEAD = "% In the preamble: \\usepackage{booktabs}\n"
SETS_PER_TABLE = 2  # number of test sets side by side; further sets go below
# maximum width of an appendix table in characters, counting two between columns; this width is 17 cm in \small
# A wider table is split into parts, each of which repeats the columns that name the row.
MOST_CHARACTERS = 100
SHOWN_MARK, EQUAL_MARK = r"\dagger", r"\ddagger"
# matches cells that are aligned right: numbers, with or without a deviation or an interval
NUMBER = re.compile(r"(?:[\d\s.,%()+<±–−-]|to|of|NA|inf|e[+-]\d)*")


def escape(text: str) -> str:
    """Escape text for LaTeX. Brackets get braces, because LaTeX would read a bracket after `\\\\` as a length."""
    return re.sub("|".join(map(re.escape, SPECIAL)), lambda match: SPECIAL[match.group()], harmless(text))


def in_a_cell(text: str) -> str:
    """Escape a table cell for LaTeX, and replace hyphens before numbers with minus signs."""
    return re.sub(r"(?<![\w.)-])-(?=[\d.]|inf)", "$-$", escape(text))


def paper_table(comparison: Comparison) -> str:
    """Return a table of each arm's mean ± standard deviation on each test set, and its difference from the baseline.

    Each difference has its interval, and a mark if the difference is shown or the arms are equivalent.
    """
    by_set = {name: [row for row in rate_rows(comparison) if row["set"] == name] for name in comparison.sets}
    parts = [list(by_set)[start : start + SETS_PER_TABLE] for start in range(0, len(by_set), SETS_PER_TABLE)]
    if not any(by_set.values()):
        return ""
    tabulars = [_arms_by_sets(comparison, names) for names in parts]
    return HEAD + _float(_caption(comparison), _label(comparison.title), tabulars, wide=len(by_set) > 1)


def _arms_by_sets(comparison: Comparison, sets: Sequence[str]) -> str:
    metric = find_metric(comparison.metric)
    verdicts = {(verdict.arm, verdict.set): verdict for verdict in comparison.verdicts}
    width = 2 if verdicts else 1
    cells = {}
    for row in rate_rows(comparison):
        place = str(row["arm"]), str(row["set"])
        cells[place] = [_format_rate(row, metric), _format_difference(verdicts.get(place), metric)][:width]
    counted = _common_seeds(comparison) is None
    first = 1 + counted
    spans = [(first + 1 + width * number, first + width * (number + 1)) for number in range(len(sets))]
    head = [rf"\multicolumn{{{width}}}{{c}}{{{escape(name)}}}" for name in sets]
    rules = "".join(rf"\cmidrule(lr){{{start}-{end}}}" for start, end in spans)
    columns = [escape(metric.heading), r"$\Delta$ [interval]"][:width]
    arms = [
        [escape(arm.name), *([str(len(arm.runs))] if counted else [])]
        + [cell for name in sets for cell in cells[arm.name, name]]
        for arm in comparison.arms
    ]
    effects = list(dict.fromkeys(arm for arm, _ in verdicts if arm not in [each.name for each in comparison.arms]))
    others = [
        [escape(name), *([""] if counted else [])]
        + [cell for set_ in sets for cell in ("", _format_difference(verdicts.get((name, set_)), metric))]
        for name in effects
    ]
    return _tabular(
        "l" + "r" * (counted + width * len(sets)),
        [
            _format_line([*[""] * first, *head]) + f"\n{rules}",
            _format_line(["", *(["seeds"] if counted else []), *columns * len(sets)]),
        ],
        [list(map(_format_line, arms)), *([list(map(_format_line, others))] if others else [])],
    )


def _format_rate(row: TableRow, metric: Metric) -> str:
    mean, deviation = value_of(row, metric.name), value_of(row, f"{metric.name}_sd")
    if mean is None:
        return "--"
    spread = "" if deviation is None else rf" \pm {metric.text(deviation)}"
    return _use_hyphens(f"${metric.text(mean)}{spread}$")


def _format_difference(verdict: Verdict | None, metric: Metric) -> str:
    """Format a verdict's difference with its interval and mark; a dash if there is no verdict."""
    if verdict is None:
        return "--"
    mark = SHOWN_MARK if verdict.outcome in SHOWN else EQUAL_MARK if verdict.outcome in EQUIVALENT else ""
    value = f"${metric.text(verdict.difference, sign=True)}{mark and f'^{{{mark}}}'}$"
    ends = format_interval(verdict.low, verdict.high, metric, between="$, $", otherwise="")
    return _use_hyphens(f"{value} [${ends}$]" if ends else value)


def _use_hyphens(text: str) -> str:
    """Replace Unicode minus signs with hyphens, which LaTeX prints as minus signs in math mode."""
    return text.replace("−", "-")


def _common_seeds(comparison: Comparison) -> int | None:
    """Return the number of seeds per arm; None if it differs between arms."""
    counts = {len(arm.runs) for arm in comparison.arms}
    return counts.pop() if len(counts) == 1 else None


def _caption(comparison: Comparison) -> str:
    """Return the table's caption, which explains the columns and the marks, and states which set decides."""
    metric, seeds = find_metric(comparison.metric), _common_seeds(comparison)
    over = "" if seeds is None else f" {seeds} seeds" if seeds > 1 else " 1 seed"
    parts = [escape(f"{metric.label} in {metric.unit}: mean ± standard deviation over{over or ' seeds'}")]
    outcomes = {verdict.outcome for verdict in comparison.verdicts}
    if outcomes:
        reference = escape(f"difference to {comparison.baseline} in {metric.amount}")
        family = max(one.family for one in comparison.verdicts)
        corrected = f" over {family} questions, by Holm's correction" if family > 1 else ""
        procedure = comparison.evidence.procedure
        test = escape(f"{procedure.test}; {100 * procedure.alpha:g} % of false claims{corrected}")
        parts[0] += rf"; $\Delta$: {reference}, with the interval of its verdict ({test})"
    if outcomes & {*SHOWN}:
        parts.append(rf"${SHOWN_MARK}$: the difference is shown")
    if outcomes & {*EQUIVALENT}:
        margin = next((one.margin for one in comparison.verdicts if one.outcome in EQUIVALENT), None)
        scale = comparison.verdicts[0].scale
        within = "" if margin is None else escape(f" within {scale.margin(margin, metric)}")
        parts.append(rf"${EQUAL_MARK}$: equivalent{within}")
    if outcomes and len(comparison.sets) > 1:
        parts.append(escape(f"{comparison.set} decides the verdicts; results on the other sets are only descriptive"))
    question = f"{escape(comparison.question)} " if comparison.question else ""
    return question + ". ".join(parts) + "."


def appendix(report: Report) -> str:
    """Return all tables of the report, each in a LaTeX table environment."""
    return HEAD + "\n".join(
        _float(
            escape(section.heading),
            _label(f"{report.comparison.title} {section.heading.partition(',')[0]}"),
            [_appendix_tabular(section, columns) for columns in _split_columns(section)],
            wide=True,
        )
        for section in report.sections
        if section.rows
    )


def _split_columns(section: Section) -> list[list[int]]:
    """Split a table into parts with a width of at most MOST_CHARACTERS. Return each part's column indices."""
    widths = [2 + max(map(len, cells)) for cells in zip(section.head, *section.rows, strict=True)]
    names = [0, 1] if section.head[:2] == ["arm", "set"] else [0]
    pieces = [[*names]]
    for column in range(len(names), len(widths)):
        if len(pieces[-1]) > len(names) and sum(widths[each] for each in [*pieces[-1], column]) > MOST_CHARACTERS:
            pieces.append([*names])
        pieces[-1].append(column)
    return pieces


def _appendix_tabular(section: Section, columns: Sequence[int]) -> str:
    rows = [[row[column] for column in columns] for row in section.rows]
    alignment = "".join(
        "r" if number and all(NUMBER.fullmatch(row[number]) for row in rows) else "l" for number in range(len(columns))
    )
    head = [escape(section.head[column]) for column in columns]
    return _tabular(alignment, [_format_line(head)], [[_format_line(map(in_a_cell, row)) for row in rows]])


def _format_line(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _tabular(alignment: str, head: Sequence[str], blocks: Sequence[Sequence[str]]) -> str:
    body = "\n\\midrule\n".join("\n".join(lines) for lines in [head, *blocks])
    return f"\\begin{{tabular}}{{{alignment}}}\n\\toprule\n{body}\n\\bottomrule\n\\end{{tabular}}"


def _label(title: str) -> str:
    return "tab:" + re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _float(caption: str, label: str, tabulars: Sequence[str], *, wide: bool) -> str:
    """Return a floating table. wide: whether it spans both columns of a two-column page."""
    name = "table*" if wide else "table"
    body = "\n\n\\medskip\n".join(tabulars)
    return (
        f"\\begin{{{name}}}\n\\centering\\small\n\\caption{{{caption}}}\n\\label{{{label}}}\n{body}\n\\end{{{name}}}\n"
    )

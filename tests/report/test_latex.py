"""Tables in LaTeX: their structure, which no LaTeX is needed to check."""

import math
import re

import pytest

from asr_ablations.report.training_report import report_comparison
from asr_verdicts.comparison import Comparison
from asr_verdicts.report.latex import MOST_CHARACTERS, appendix, escape, in_a_cell, paper_table
from asr_verdicts.table_columns import rate_rows
from asr_verdicts.verdict import SHOWN
from tests.helpers.comparison import comparison

TABULAR = re.compile(r"\\begin\{tabular\}\{(\w+)\}\n(.*?)\\end\{tabular\}", re.DOTALL)
SPANNING = re.compile(r"\\multicolumn\{(\d+)\}")


@pytest.fixture(scope="module")
def handmade(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return comparison(tmp_path_factory.mktemp("runs"))


def rows(text: str) -> list[tuple[str, list[list[str]]]]:
    """The alignment of each tabular and its rows of cells, as LaTeX reads them. Raises AssertionError for a tabular
    whose rows have more or fewer columns.
    """
    tabulars = []
    for alignment, body in TABULAR.findall(text):
        lines = [line.removesuffix(r" \\") for line in body.splitlines() if line.endswith(r"\\")]
        cells = [[cell.strip() for cell in re.split(r"(?<!\\)&", line)] for line in lines]
        for row in cells:
            spans = [int(found[1]) if (found := SPANNING.match(cell)) else 1 for cell in row]
            assert sum(spans) == len(alignment), row
        tabulars.append((alignment, cells))
    return tabulars


def assert_whole(text: str) -> None:
    """Environments, braces and formulas end where they begin, and nothing but a comment stands before the first."""
    assert text.startswith("% In the preamble: \\usepackage{booktabs}\n\\begin{")
    opened: list[str] = []
    for kind, name in re.findall(r"\\(begin|end)\{([\w*]+)\}", text):
        if kind == "begin":
            opened.append(name)
        else:
            assert opened.pop() == name
    assert not opened
    plain = re.sub(r"\\[\\{}$%]", "", text)
    assert plain.count("{") == plain.count("}")
    assert plain.count("$") % 2 == 0
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == text.count(r"\begin{tabular}")
    assert text.count(r"\caption{") == text.count(r"\label{tab:") == len(re.findall(r"\\begin\{table\*?\}", text))


def test_characters_are_printed_literally() -> None:
    assert escape(r"50 % of_a & b \ {x} ±") == r"50 \% of\_a \& b \textbackslash{} \{x\} $\pm$"
    assert escape("[1ex] a]") == "{[}1ex{]} a{]}"
    assert in_a_cell("-0.12 to -0.01") == "$-$0.12 to $-$0.01"
    assert in_a_cell("test-clean 1e-06") == "test-clean 1e-06"


def test_a_paper_has_the_arms_on_the_test_sets(handmade: Comparison) -> None:
    """rnn=rnn is 11 points behind rnn=lstm, which three seeds of 16 utterances show."""
    text = paper_table(handmade)
    assert_whole(text)
    ((alignment, (sets, head, *arms)),) = rows(text)
    assert alignment == "lrrrr"
    assert sets == ["", r"\multicolumn{2}{c}{test-clean}", r"\multicolumn{2}{c}{test-other}"]
    assert head == ["", r"WER \%", r"$\Delta$ [interval]", r"WER \%", r"$\Delta$ [interval]"]
    assert [row[0] for row in arms] == ["rnn=lstm", "rnn=gru", "rnn=rnn"]
    assert arms[0][2] == arms[0][4] == "--"
    for verdict in handmade.verdicts:
        (row,) = (row for row in arms if row[0] == verdict.arm)
        cell = row[2 + 2 * handmade.sets.index(verdict.set)]
        interval = r" \[\$[+-][\d.]+\$, \$[+-][\d.]+\$\]"
        assert re.fullmatch(
            r"\$[+-][\d.]+(\^\{\\dagger\})?\$" + interval * (verdict.low is not None and math.isfinite(verdict.low)),
            cell,
        )
        assert (r"\dagger" in cell) == (verdict.outcome in SHOWN)
    (row,) = (row for row in rate_rows(handmade) if (row["arm"], row["set"]) == ("rnn=gru", "test-clean"))
    assert arms[1][1] == rf"${100 * float(row['wer'] or 0):.2f} \pm {100 * float(row['wer_sd'] or 0):.2f}$"
    caption = text[text.index(r"\caption") : text.index(r"\label")]
    assert r"difference to rnn=lstm in points" in caption
    assert "over 3 seeds" in caption
    assert rf"with the interval of its verdict ({handmade.evidence.procedure.test}; 5 \% of false claims" in caption
    assert (r"\dagger" in caption) == any(verdict.outcome in SHOWN for verdict in handmade.verdicts)


def test_the_appendix_has_every_table_in_parts_that_fit(handmade: Comparison) -> None:
    text = appendix(report_comparison(handmade))
    assert_whole(text)
    assert not re.search(r"\d\.\d{5,}", re.sub(r"\\label\{.*?\}", "", text))  # no 1.78755 hours
    tabulars = rows(text)
    assert len(tabulars) > 6
    for _, cells in tabulars:
        printed = [[re.sub(r"[$\\\\{}]|pm", "", cell) for cell in row] for row in cells]
        assert sum(2 + max(map(len, column)) for column in zip(*printed, strict=True)) <= MOST_CHARACTERS
    differences = [cells for _, cells in tabulars if cells[0][:2] == ["arm", "set"] and "verdict" in cells[0]]
    (cells,) = differences
    (alignment,) = (alignment for alignment, own in tabulars if own is cells)
    words = [head for head, kind in zip(cells[0], alignment, strict=True) if kind == "l"]
    assert words == ["arm", "set", "verdict"]
    assert not re.search(r"(?<![\w$)-])-\d", re.sub(r"\$[^$]*\$", "", text))

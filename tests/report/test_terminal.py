"""Texts of a comparison in the terminal, in files and in LaTeX, whose structure no LaTeX is needed to check."""

import csv
import html
import io
import json
import math
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread
from rich.console import Console

from asr_ablations.comparison.folders import compare_folders
from asr_ablations.report.inspection import Inspected, choose_utterances, draw_inspected, error_spans
from asr_ablations.report.training_report import report_comparison, sections
from asr_ablations.tools.files import REPOSITORY
from asr_verdicts import plotting
from asr_verdicts.comparison import Comparison
from asr_verdicts.design import Options
from asr_verdicts.error_counts import align, word_errors
from asr_verdicts.errors import UsageError
from asr_verdicts.report.files import write_texts
from asr_verdicts.report.formats import markdown
from asr_verdicts.report.latex import MOST_CHARACTERS, appendix, escape, in_a_cell, paper_table
from asr_verdicts.report.terminal import print_comparison
from asr_verdicts.table_columns import rate_rows, validation_rows
from asr_verdicts.verdict import SHOWN
from tests.helpers.run_folders import write_run, write_sweep


def test_the_page_defines_its_terms_in_the_words_of_the_documentation() -> None:
    text = (REPOSITORY / "docs" / "statistics.md").read_text(encoding="utf-8")
    table = text.partition("### Terms of the tables")[2].split("\n\n")[1]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    plain = {term: re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("`", "") for term, text in rows}
    page = files("asr_ablations.report.page").joinpath("page.html").read_text(encoding="utf-8")
    shown = re.findall(r"<dt>(.*)</dt>\n *<dd>(.*)</dd>", page)
    assert plain == {html.unescape(term): html.unescape(text) for term, text in shown}


@pytest.fixture(scope="module")
def text_comparison(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    outputs = tmp_path_factory.mktemp("outputs")
    ablation = {"question": "50 % of_what?", "factor": "rnn", "baseline": "lstm"}
    sweep = write_sweep(outputs, {"rnn=lstm": 0.1, "rnn=gru": 0.3}, seeds=2, ablation=ablation)
    write_run(outputs, "rnn=rnn", ablation=ablation, status="failed")
    return compare_folders([sweep], Options())


def terminal(text_comparison: Comparison) -> str:
    console = Console(file=io.StringIO(), width=160)
    print_comparison(report_comparison(text_comparison), console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_all_formats_hold_every_cell(text_comparison: Comparison) -> None:
    report, shown = report_comparison(text_comparison), terminal(text_comparison)
    page, tables = markdown(report), appendix(report)
    for section in sections(text_comparison):
        for cell in (cell for row in section.rows for cell in row):
            assert cell in page
            assert in_a_cell(cell) in tables
            assert cell in shown
        if not section.rows:
            assert all(line in page and line in shown for line in section.lines)


def test_validation_sets_have_rates_and_no_verdicts(text_comparison: Comparison) -> None:
    """Baunsgaard2020 table 5 shows both kinds of sets."""
    assert [(row["arm"], row["set"], row["n"]) for row in validation_rows(text_comparison)] == [
        (arm.name, "dev", 2) for arm in text_comparison.arms
    ]
    for arm, row in zip(text_comparison.arms, validation_rows(text_comparison), strict=True):
        assert row["wer"] == pytest.approx(sum(run.summary.sets["dev"].wer for run in arm.runs) / 2)
    assert {contrast.set for contrast in text_comparison.verdicts} == {"test"}
    (section,) = [
        each for each in sections(text_comparison) if each.heading.startswith("Error rates on validation sets")
    ]
    assert [row[1] for row in section.rows] == ["dev", "dev"]
    by_loss = compare_folders(
        [text_comparison.runs[0].folder.parent], Options(metric="loss")
    )  # which is judged on dev itself
    assert validation_rows(by_loss) == []


def test_numbers_in_csv_and_json_are_as_measured(text_comparison: Comparison, tmp_path: Path) -> None:
    written = {path.name: path for path in write_texts(report_comparison(text_comparison), tmp_path / "new" / "folder")}
    with written["table.csv"].open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["wer"]) for row in rows] == [row["wer"] for row in rate_rows(text_comparison)]
    content = json.loads(written["comparison.json"].read_text())
    assert content["differences"][0]["difference"] == text_comparison.verdicts[0].difference
    assert [len(arm["runs"]) for arm in content["arms"]] == [2, 2]
    assert "utterances" not in content["arms"][0]["runs"][0]
    assert content["unfinished"][0]["reason"] == "failed: out of memory"


def test_names_with_brackets_are_shown_as_they_are(text_comparison: Comparison) -> None:
    first, *others = text_comparison.arms
    odd = replace(text_comparison, arms=[replace(first, name="data.train=[bold]"), *others])
    assert "data.train=[bold]" in terminal(odd)


def row(id_: str, reference: str, hypothesis: str) -> dict[str, Any]:
    """As utterances.csv has it, as far as it is read here."""
    words = word_errors(reference, hypothesis)
    return {
        "id": id_, "set": "test", "reference": reference, "hypothesis": hypothesis, "duration": 1.0,
        "words": words.total, "substitutions": words.substitutions, "deletions": words.deletions,
        "insertions": words.insertions,
    }  # fmt: skip


def seen(reference: str, hypothesis: str, spans: list[tuple[float, float]]) -> Inspected:
    log_probs = np.log(np.full((10, 4), 0.02))
    log_probs[:, 0] = np.log(0.94)
    log_probs[3] = np.log([0.04, 0.9, 0.03, 0.03])
    pairs = align(reference.split(), hypothesis.split())
    return Inspected("worst", row("d", reference, hypothesis), pairs, np.eye(20, 8), log_probs, list("ab "), 0.1, spans)


def test_errors_stand_where_the_hypothesis_has_them_and_utterances_are_chosen_once() -> None:
    """A word that is missing stands between its neighbours, at the end until the end."""
    spans = error_spans(seen("a bad bed cab", "a dad cab now", [(0.0, 0.1), (0.2, 0.4), (0.6, 0.8), (0.8, 0.9)]))
    assert [(tuple(map(float, span)), text) for span, text in spans] in (
        [((0.2, 0.4), "bad → dad"), ((0.4, 0.6), "bed → –"), ((0.8, 0.9), "– → now")],
        [((0.1, 0.2), "bad → –"), ((0.2, 0.4), "bed → dad"), ((0.8, 0.9), "– → now")],
    )
    assert error_spans(seen("a cab", "a", [(0.0, 0.2)])) == [((0.2, 1.0), "cab → –")]
    assert error_spans(seen("a", "a", [(0.0, 0.2)])) == []
    texts = {
        "a": ("a cab", "a cab"), "b": ("dad had a cab", "dad had a cab"), "c": ("a bad bed", "a bad dad"),
        "d": ("be a dab", "cab"), "e": ("a bee", "dad cab"),
    }  # fmt: skip
    rows = [row(id_, *both) for id_, both in texts.items()]
    chosen = {kind: chosen_row["id"] for kind, chosen_row in choose_utterances(rows).items()}
    assert chosen == {"worst": "d", "median": "c", "best": "b"}, "among equals the longest"
    assert list(choose_utterances(rows[:1])) == ["worst"]
    assert choose_utterances([]) == {}


def test_an_utterance_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plotting, "FORMATS", {kind: plotting.FORMATS[kind] for kind in ("png", "svg")})
    for hypothesis in ("a", "", "b a"):
        spans = [(0.1 * number, 0.1 * number + 0.1) for number in range(len(hypothesis.split()))]
        paths = draw_inspected([seen("a", hypothesis, spans)], tmp_path)
        assert {path.name for path in paths} == {"utterance_worst.png", "utterance_worst.svg"}
        text = (tmp_path / "utterance_worst.svg").read_text()
        assert "posterior, best path" in text
        assert hypothesis == "a" or "→" in text
        assert np.ptp(imread(tmp_path / "utterance_worst.png")[..., :3]) > 0.5


def test_a_file_that_no_comparison_wrote_is_not_replaced(text_comparison: Comparison, tmp_path: Path) -> None:
    report = report_comparison(text_comparison)
    for name in ("table.tex", "appendix.tex", "index.html"):
        folder = tmp_path / name.partition(".")[2] / name.partition(".")[0]
        folder.mkdir(parents=True)
        (folder / name).write_text("mine")
        with pytest.raises(UsageError, match=f"{name}: not written by a comparison"):
            write_texts(report, folder)
        assert [path.read_text() for path in folder.iterdir()] == ["mine"]
        (folder / name).unlink()
        assert write_texts(report, folder) == write_texts(report, folder)


def rows(text: str) -> list[tuple[str, list[list[str]]]]:
    """The alignment of each tabular and its rows of cells, after a check that all rows have that many columns."""
    tabulars = []
    found = re.findall(r"\\begin\{tabular\}\{(\w+)\}\n(.*?)\\end\{tabular\}", text, re.DOTALL)
    for alignment, body in found:
        lines = [line.removesuffix(r" \\") for line in body.splitlines() if line.endswith(r"\\")]
        cells = [[cell.strip() for cell in re.split(r"(?<!\\)&", line)] for line in lines]
        for row in cells:
            wider = sum(int(span) - 1 for span in re.findall(r"\\multicolumn\{(\d+)\}", "".join(row)))
            assert len(row) + wider == len(alignment), row
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

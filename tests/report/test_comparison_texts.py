"""Every format of a comparison says the same."""

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from asr_ablations.comparison.comparison import compare
from asr_ablations.comparison.design import Options
from asr_ablations.comparison.result import Comparison
from asr_ablations.report.files import write_texts
from asr_ablations.report.formats import escape, latex, markdown, table
from asr_ablations.report.sections import sections
from asr_ablations.report.terminal import print_comparison
from tests.helpers.run_folders import write_run, write_sweep


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    outputs = tmp_path_factory.mktemp("outputs")
    ablation = {"question": "50 % of_what?", "factor": "rnn", "baseline": "lstm"}
    sweep = write_sweep(outputs, {"rnn=lstm": 0.1, "rnn=gru": 0.3}, seeds=2, ablation=ablation)
    write_run(outputs, "rnn=rnn", ablation=ablation, status="failed")
    return compare([sweep], Options())


def terminal(comparison: Comparison) -> str:
    console = Console(file=io.StringIO(), width=160)
    print_comparison(comparison, console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_all_formats_hold_every_cell(comparison: Comparison) -> None:
    shown = terminal(comparison)
    for section in sections(comparison):
        for cell in (cell for row in section.rows for cell in row):
            assert cell in markdown(comparison)
            assert escape(cell) in latex(comparison)
            assert cell in shown
        if not section.rows:
            assert all(line in markdown(comparison) and line in shown for line in section.lines)


def test_validation_sets_have_rates_and_no_verdicts(comparison: Comparison) -> None:
    """Baunsgaard2020 table 5 shows both kinds of sets."""
    assert [(row["arm"], row["set"], row["n"]) for row in comparison.validated] == [
        (arm.name, "dev", 2) for arm in comparison.arms
    ]
    for arm, row in zip(comparison.arms, comparison.validated, strict=True):
        assert row["wer"] == pytest.approx(sum(run.summary.sets["dev"].wer for run in arm.runs) / 2)
    assert {contrast.set for contrast in comparison.contrasts} == {"test"}
    (section,) = [each for each in sections(comparison) if each.heading.startswith("Error rates on validation sets")]
    assert [row[1] for row in section.rows] == ["dev", "dev"]
    by_loss = compare([comparison.runs[0].folder.parent], Options(metric="loss"))  # which is judged on dev itself
    assert by_loss.validated == []


def test_numbers_in_csv_and_json_are_as_measured(comparison: Comparison, tmp_path: Path) -> None:
    written = {path.suffix: path for path in write_texts(comparison, tmp_path / "new" / "folder")}
    with written[".csv"].open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["wer"]) for row in rows] == [row["wer"] for row in comparison.rows]
    content = json.loads(written[".json"].read_text())
    assert content["differences"][0]["difference"] == comparison.contrasts[0].difference
    assert [len(arm["runs"]) for arm in content["arms"]] == [2, 2]
    assert "utterances" not in content["arms"][0]["runs"][0]
    assert content["unfinished"][0]["reason"] == "failed: out of memory"


def test_what_is_not_a_number_is_null(tmp_path: Path) -> None:
    write_run(tmp_path, "rnn=lstm")
    write_run(tmp_path, "rnn=gru")
    comparison = compare([tmp_path / "sweep"], Options())
    text = (write_texts(comparison, tmp_path / "out")[-1]).read_text()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_a_markdown_table_has_as_many_cells_everywhere() -> None:
    lines = table(["a", "b"], [["x|y", "1"], ["", "2"]]).splitlines()
    assert [len(re.findall(r"(?<!\\)\|", line)) for line in lines] == [3, 3, 3, 3]


def test_latex_is_escaped_and_balanced(comparison: Comparison) -> None:
    assert escape(r"50 % of_a & b \ {x} ±") == r"50 \% of\_a \& b \textbackslash{} \{x\} $\pm$"
    text = latex(comparison)
    assert text.count(r"\begin{") == text.count(r"\end{") > 4
    for body in re.findall(r"\\begin\{tabular\}\{(\w+)\}(.*?)\\end\{tabular\}", text, flags=re.DOTALL):
        rows = [line for line in body[1].splitlines() if line.endswith(r"\\")]
        assert {len(re.findall(r"(?<!\\)&", line)) + 1 for line in rows} == {len(body[0])}


def test_names_with_brackets_are_shown_as_they_are(comparison: Comparison) -> None:
    verdict = replace(comparison.verdicts[0], sentence="x[bold] is worse")
    odd = replace(comparison, rows=[{**comparison.rows[0], "arm": "data.train=[a]"}], verdicts=[verdict])
    assert "data.train=[a]" in terminal(odd)
    assert "x[bold] is worse" in terminal(odd)

"""Results of several runs or machines in one table."""

import json

import pytest

from asr_ablations.tools.errors import UsageError
from asr_benchmarks.plots import draw, plot
from asr_benchmarks.tables import Result, compare_results, join_tables, markdown, read, results

MINE = {
    "ratio": 1.5,
    "rows": [{"rnn": "lstm", "batch": 4, "ms": 10.0}, {"rnn": "gru", "batch": 4, "ms": 8.0}],
    "notes": ["a note"],
    "plots": [plot("Step time", "bars", "layer", "ms", {"all": {"lstm": 10.0, "gru": 8.0}})],
    "machine": {"processor": "A", "cores": 2},
}
THEIRS = {
    "ratio": 3.0,
    "rows": [{"rnn": "lstm", "batch": 4, "ms": 1.0}, {"rnn": "lstm", "batch": 8, "ms": None}],
    "machine": {"processor": "B", "cores": 16},
}


def test_rows_meet_by_what_is_no_measurement():
    joined = join_tables({"mine": Result.from_json(MINE), "theirs": Result.from_json(THEIRS)})
    assert joined["figures"] == [{"figure": "ratio", "value mine": 1.5, "value theirs": 3.0}]
    assert joined["rows"] == [
        {"rnn": "lstm", "batch": 4, "ms mine": 10.0, "ms theirs": 1.0},
        {"rnn": "gru", "batch": 4, "ms mine": 8.0, "ms theirs": None},
        {"rnn": "lstm", "batch": 8, "ms mine": None, "ms theirs": None},
    ]


def test_two_machines_files_give_a_report_with_plots(tmp_path, capsys):
    for name, content in (("mine", MINE), ("theirs", THEIRS)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    files = [file for name in ("mine", "theirs") for file in results(tmp_path / f"{name}.json")]
    written = compare_results(files, tmp_path / "comparison")
    assert {path.name for path in written} == {"comparison.json", "report.md", "step-time.png", "step-time.svg"}
    report = (tmp_path / "comparison" / "report.md").read_text()
    for line in (
        "| lstm | 4 | 10 | 1 |",
        "| processor | A | B |",
        "- mine: a note",
        "![step-time](step-time.png)",
    ):
        assert line in report
    assert "lstm" in capsys.readouterr().out


def test_runs_are_named_by_what_varies_and_kept_ones_left_out(tmp_path):
    for name, overrides in (("a", "x=1\ny=1"), ("b", "x=1\ny=2"), ("a.1", "x=1\ny=1")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "overrides").write_text(overrides)
        (tmp_path / name / "result.json").write_text(json.dumps(MINE))
    assert list(read(results(tmp_path))) == ["y=1", "y=2"]
    assert results(tmp_path / "a") == [tmp_path / "a" / "result.json"]


def test_results_of_the_same_command_are_named_by_the_versions_that_differ(tmp_path):
    for number, (torch, processor) in enumerate((("2.10.0", "A"), ("2.11.0", "A"), ("2.11.0", "B"))):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        (folder / "overrides").write_text("benchmark=lstm")
        machine = {"processor": processor, "torch": torch, "python": "3.11.4"}
        (folder / "result.json").write_text(json.dumps({**MINE, "machine": machine}))
    files = [tmp_path / name / "result.json" for name in "012"]
    assert list(read(files[:2])) == ["torch 2.10.0", "torch 2.11.0"]
    assert list(read(files[1:])) == ["default 1", "default 2"]
    assert list(read(files)) == ["torch 2.10.0", "torch 2.11.0 2", "torch 2.11.0 3"]


def test_what_a_paper_printed_stands_once_and_what_stands_beside_it_for_each():
    tables = {
        name: Result(tables={"published": [{"slower": "basic", "times": 2.2, "ours": ours}]})
        for name, ours in (("mine", 3.0), ("theirs", 4.0))
    }
    row = {"slower": "basic", "times": 2.2, "ours mine": 3.0, "ours theirs": 4.0}
    assert join_tables(tables) == {"published": [row]}


@pytest.mark.parametrize("content", ["[1]", "{", '{"ratio": 1}'])
def test_a_file_that_is_no_result_is_one_line(tmp_path, content):
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(UsageError, match=r"x\.json"):
        read([tmp_path / "x.json"])


def test_a_report_shows_figures_tables_and_notes():
    text = markdown("step", Result.from_json(MINE))
    for line in ("# step", "| ratio | 1.5 |", "| gru | 4 | 8 |", "- a note", "- processor: A"):
        assert line in text


def test_logarithmic_plots_have_plain_numbers_and_others_begin_at_0(tmp_path):
    points = {"a": {1: 20.0, 2: 90.0, 4: None}}
    draw([plot("log", "lines", "x", "y", points, log=True), plot("plain", "lines", "x", "y", points)], tmp_path)
    log, plain = ((tmp_path / f"{name}.svg").read_text() for name in ("log", "plain"))
    assert "mathdefault" not in log
    assert ">50<" in log
    assert ">0<" in plain
    assert ">1.5<" not in plain

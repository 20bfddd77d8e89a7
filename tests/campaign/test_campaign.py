"""A campaign through its real entry: parts found and chosen, shares of time, reports, failures, Ctrl-C, resuming."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.campaign.__main__ import main
from tests.campaign.part import find_parts
from tests.helpers.interpreter import REPOSITORY, program

PASSING = """
NAME, DESCRIPTION = "{name}", "two cases"
def run(context):
    report = context.report("case", "outcome")
    for number in context.while_time(range(2), 2):
        report.rows.append([str(number), {outcome!r}])
        report.count("cases")
        {more}
    return report
"""


def write_part(folder: Path, name: str, more: str = "", outcome: str = "fine") -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(PASSING.format(name=name, more=more, outcome=outcome))


def campaign(parts: Path, outputs: Path, *arguments: str) -> int:
    return main(["--parts-folder", str(parts), "--outputs", str(outputs), "--hours", "0.01", *arguments])


def only(outputs: Path) -> Path:
    (folder,) = outputs.iterdir()
    return folder


def verdicts(folder: Path) -> dict[str, bool]:
    return {part["name"]: part["passed"] for part in json.loads((folder / "report.json").read_text())["parts"]}


def test_the_docs_explain_each_part() -> None:
    page = (REPOSITORY / "docs" / "campaigns.md").read_text(encoding="utf-8")
    assert [name for name in find_parts() if f"| `{name}` |" not in page] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--parts", "kils"], "PARTS=kils: expected "),
        (["--hours", "soon"], "HOURS=soon: expected a number above 0"),
        (["--hours", "0"], "HOURS=0: expected a number above 0"),
        (["--hours", "nan"], "HOURS=nan: expected a number above 0"),
        (["--resume", "/nowhere/at/all"], "RESUME=/nowhere/at/all: there is no such folder"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--outputs", str(tmp_path / "outputs"), *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {message}")
    assert not (tmp_path / "outputs").exists()


@pytest.mark.parametrize(
    ("text", "message"), [("NAME = 1\n", "expected DESCRIPTION, run in it"), (PASSING, "another part has that name")]
)
def test_a_file_that_is_no_part_is_named(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_part(tmp_path / "parts", "first")
    (tmp_path / "parts" / "wrong.py").write_text(text.format(name="first", outcome="", more=""))
    assert campaign(tmp_path / "parts", tmp_path / "outputs") == 2
    error = capsys.readouterr().err
    assert error.startswith("error: wrong.py: ")
    assert message in error


def test_every_part_is_reported_whatever_becomes_of_the_others(tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    write_part(parts, "breaks", "1 / 0")
    write_part(parts, "fails", "report.failures.append(f'case {number} | came out \\x1b[31mred')")
    write_part(parts, "passes", outcome="a | b")
    (parts / "nothing.py").write_text(
        "NAME, DESCRIPTION = 'nothing', 'counts nothing'\ndef run(context): return context.report('case')\n"
    )
    assert campaign(parts, tmp_path / "outputs") == 1
    folder = only(tmp_path / "outputs")
    assert verdicts(folder) == {"breaks": False, "fails": False, "nothing": False, "passes": True}
    page = (folder / "report.md").read_text()
    assert "| breaks | broken: ZeroDivisionError: division by zero |" in page
    assert "| fails | 2 failed |" in page
    assert "| 1 | a \\| b |" in page
    assert "\x1b" not in page
    for name in ("breaks", "fails", "nothing", "passes"):
        assert json.loads((folder / f"{name}.json").read_text())["name"] == name


def test_what_ended_is_kept_at_ctrl_c_and_not_run_again(tmp_path: Path) -> None:
    parts, outputs = tmp_path / "parts", tmp_path / "outputs"
    write_part(parts, "a")
    write_part(parts, "b", f"import pathlib; pathlib.Path({str(tmp_path)!r}, 'b').touch(exist_ok=False)")
    command = [sys.executable, "-m", "tests.campaign", "--parts-folder", str(parts), "--outputs", str(outputs)]
    environment = {**os.environ, "PYTHONPATH": "src"}
    stop = f"os.kill(os.getpid(), {int(signal.SIGINT)}); time.sleep(600)"
    write_part(parts, "c", f"(context.folder / 'work').mkdir(); import os, time; {stop}")
    (parts / "b.py").write_text((parts / "b.py").read_text().replace("exist_ok=False", "exist_ok=number > 0"))
    first = program(command, environment)
    assert first.returncode == 130, first.stderr
    folder = only(outputs)
    assert verdicts(folder) == {"a": True, "b": True, "c": False}
    assert "| c | interrupted |" in (folder / "report.md").read_text()
    assert json.loads((folder / "c.json").read_text())["report"]["rows"] == [["0", "fine"]]
    assert "report of what ended" in first.stderr
    write_part(parts, "c", "number or (context.folder / 'work').mkdir()")
    assert campaign(parts, outputs, "--resume", str(folder)) == 0, "b would fail if it ran twice"
    assert verdicts(folder) == {"a": True, "b": True, "c": True}
    assert (folder / "c.1" / "work").is_dir()


def test_make_campaign(tmp_path: Path) -> None:
    """The target with so little time that each scenario's first block of trials is all."""
    command = ["make", "campaign", "PARTS=coverage", "HOURS=0.00001", f"ARGS=--outputs {tmp_path / 'outputs'}"]
    done = program(command, os.environ)
    assert done.returncode == 0, done.stderr
    folder = only(tmp_path / "outputs")
    assert f"report  {folder / 'report.md'}" in done.stdout
    assert verdicts(folder) == {"coverage": True}
    page = (folder / "report.md").read_text()
    assert all(f"- {fact}: " in page for fact in ("commit", "machine", "seed", "hours asked"))

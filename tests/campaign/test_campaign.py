"""A campaign through its entry: parts chosen and documented, a report of each, Ctrl-C; what the parts judge by."""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.campaign.__main__ import main
from tests.campaign.campaign import run_campaign
from tests.campaign.commands import Result
from tests.campaign.input_places import Case, judge, read_table
from tests.campaign.part import Context, Report, find_parts
from tests.campaign.victims import half_files, temporary
from tests.helpers.interpreter import REPOSITORY, SOURCE, program


def test_the_docs_explain_each_part() -> None:
    page = (REPOSITORY / "docs" / "campaigns.md").read_text(encoding="utf-8")
    assert [name for name in find_parts() if f"| `{name}` |" not in page] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--parts", "kils"], "PARTS=kils: expected "),
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


def test_every_part_is_reported_and_after_ctrl_c_those_that_had_not_ended_run(tmp_path: Path) -> None:
    starts: list[str] = []

    def part(name: str, error: BaseException | None = None, failure: str = "") -> Any:
        def run(context: Context) -> Report:
            starts.append(name)
            report = context.report("case", "outcome")
            for number in context.while_time(range(2), 2):
                report.rows.append([str(number), "a | b"])
                report.count("cases")
                report.failures += [failure] if failure else []
                if error and starts.count(name) == 1:
                    raise error
            return report

        return SimpleNamespace(NAME=name, DESCRIPTION="two cases", run=run)

    parts = [
        part("fails", failure="came out | \x1b[31mred"),
        part("breaks", ZeroDivisionError("division by zero")),
        part("stops", KeyboardInterrupt()),
        part("passes"),
    ]
    assert run_campaign(parts, tmp_path, 0.1, 0) == 130
    page = (tmp_path / "report.md").read_text()
    for line in (
        "| fails | 2 failed |",
        "| breaks | broken: ZeroDivisionError: division by zero |",
        "| stops | interrupted |",
    ):
        assert line in page
    assert "| 0 | a \\| b |" in page
    assert "\x1b" not in page
    assert run_campaign(parts, tmp_path, 0.1, 0) == 1
    assert starts == ["fails", "breaks", "stops", "breaks", "stops", "passes"]
    passed = {part["name"]: part["passed"] for part in json.loads((tmp_path / "report.json").read_text())["parts"]}
    assert passed == {"fails": False, "breaks": True, "stops": True, "passes": True}


def test_make_campaign(tmp_path: Path) -> None:
    """The target, for the part that does nothing unless it is given runs."""
    command = ["make", "campaign", "PARTS=same", "HOURS=0.1", f"ARGS=--outputs {tmp_path / 'outputs'}"]
    done = program(command, os.environ)
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "outputs").iterdir()
    assert f"report  {folder / 'report.md'}" in done.stdout
    assert "| same | passed |" in (folder / "report.md").read_text()


def test_rows_of_bad_input_are_for_every_command_each_once() -> None:
    cases = read_table()
    assert {case.command for case in cases} == {path.stem for path in SOURCE.glob("*.py")}
    keys = [(case.command, case.typed, case.shell) for case in cases]
    assert [key for key in keys if keys.count(key) > 1] == []


def test_outcomes_of_bad_input_are_told_apart() -> None:
    case = Case("train", 1, "rnn=x", (2,), ("rnn=x",), "")
    for code, out, errors, executed, outcome in (
        (2, "", "error: rnn=x: expected gru\n", False, "fine"),
        (2, "", "error: rnn=y: expected gru\n", False, "wrong message"),
        (2, "", "error: rnn=x\n", True, "executed"),
        (2, "", "Traceback (most recent call last):\nerror: rnn=x\n", False, "traceback"),
        (1, "", "error: rnn=x\n", False, "wrong exit code"),
        (0, "trained", "", False, "silent"),
        (-11, "", "", False, "crash"),
        (None, "", "", False, "hang"),
    ):
        assert judge(case, Result(code, out, errors), case.words, executed) == outcome


def test_half_files_and_temporary_ones_are_found(tmp_path: Path) -> None:
    for name, text in {"a.json": "{}", "b.csv": "a,b\n1,2\n", "c.yaml": "a: 1\n", ".d.json.17": "{"}.items():
        (tmp_path / name).write_text(text)
    assert (half_files(tmp_path), temporary(tmp_path)) == ([], [".d.json.17"])
    damaged = {"a.json": "{", "b.csv": "a,b\n1\n", "c.yaml": "a: b: c", "f.ckpt": ""}
    for name, text in damaged.items():
        (tmp_path / name).write_text(text)
    assert sorted(line.partition(":")[0] for line in half_files(tmp_path)) == sorted(damaged)

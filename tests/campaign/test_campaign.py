"""A campaign through its entry: parts chosen and documented, a report of each, Ctrl-C; what the parts judge by."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.campaign.__main__ import main
from tests.campaign.campaign import run_campaign
from tests.campaign.input_places import read_table
from tests.campaign.part import Context, Report, find_parts
from tests.helpers.interpreter import REPOSITORY, SOURCE


def test_the_docs_explain_each_part() -> None:
    page = (REPOSITORY / "docs" / "campaigns.md").read_text(encoding="utf-8")
    assert [name for name in find_parts() if f"| `{name}` |" not in page] == []


def test_a_mistake_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        (["--parts", "kils"], "PARTS=kils: expected "), (["--hours", "nan"], "HOURS=nan: expected a number above 0"),
        (["--resume", "/nowhere/at/all"], "RESUME=/nowhere/at/all: there is no such folder"),
    ):  # fmt: skip
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


def test_a_campaign_by_its_entry(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The part that does nothing unless it is given runs."""
    assert main(["--parts", "same", "--hours", "0.1", "--outputs", str(tmp_path / "outputs")]) == 0
    (folder,) = (tmp_path / "outputs").iterdir()
    assert f"report  {folder / 'report.md'}" in capsys.readouterr().out
    assert "| same | passed |" in (folder / "report.md").read_text()


def test_rows_of_bad_input_are_for_every_command_each_once() -> None:
    cases = read_table()
    assert {case.command for case in cases} == {path.stem for path in SOURCE.glob("*.py")}
    keys = [(case.command, case.typed, case.shell) for case in cases]
    assert [key for key in keys if keys.count(key) > 1] == []

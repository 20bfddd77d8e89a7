"""The files of a campaign: a JSON file per part, and report.md and report.json of all that have ended."""

from collections import Counter
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from asr_ablations.tools.files import Json, read_json, write, write_json
from tests.campaign.part import Report

REPORT, TABLE = "report.md", "report.json"
LONGEST = 100
"""Failures of a part that the page lists; the JSON file has all."""


@dataclass
class Ended:
    """A part that has ended. ending: done; or how it ended early: interrupted, or the exception. The seconds, and those
    of processor time, are of all its starts.
    """

    name: str
    description: str
    ending: str
    seconds: float
    processor_seconds: float
    report: Report

    @property
    def passed(self) -> bool:
        return self.ending == "done" and self.report.passed

    @property
    def verdict(self) -> str:
        if self.ending != "done":
            return self.ending
        return "passed" if self.report.passed else f"{len(self.report.failures)} failed"


def keep(folder: Path, ended: Ended) -> None:
    """Write a part's own file, whole."""
    write_json(folder / f"{ended.name}.json", asdict(ended))


def kept(folder: Path, name: str) -> Ended | None:
    """A part as an earlier start of this campaign left it."""
    path = folder / f"{name}.json"
    if not path.exists():
        return None
    content = read_json(path)
    report = Report(**{key.name: content["report"][key.name] for key in fields(Report)})
    return Ended(**{**content, "report": report})


def write_report(folder: Path, head: Json, parts: list[Ended]) -> Path:
    """Write report.json, and report.md, whose path is returned. head: what was asked, when, and on what machine."""
    write_json(folder / TABLE, {**head, "parts": [{**asdict(part), "passed": part.passed} for part in parts]})
    lines = ["# Campaign", "", *(f"- {key}: {value}" for key, value in head.items()), ""]
    lines += _table(
        ["part", "verdict", "minutes", "of processor time", "counts"],
        [
            [
                part.name,
                part.verdict,
                *(f"{s / 60:.1f}" for s in (part.seconds, part.processor_seconds)),
                _counts(part.report),
            ]
            for part in parts
        ],
    )
    for part in parts:
        lines += ["", f"## {part.name}", "", part.description, ""]
        lines += _table(part.report.columns, part.report.rows) if part.report.rows else []
        lines += _commits(part.report)
        lines += _failures(part.report.failures, part.name)
    write(folder / REPORT, "\n".join(lines) + "\n")
    return folder / REPORT


def _counts(report: Report) -> str:
    return ", ".join(f"{name} {number}" for name, number in report.counts.items())


def _commits(report: Report) -> list[str]:
    """At which commit how many cases were tried last, where the part says so."""
    commits = Counter(str(case["commit"]) for case in report.cases if "commit" in case)
    return ["", *(f"- at {commit}: {number} cases" for commit, number in commits.items())] if commits else []


def _failures(failures: list[str], name: str) -> list[str]:
    if not failures:
        return []
    more = [f"- and {len(failures) - LONGEST} more in {name}.json"] if len(failures) > LONGEST else []
    return ["", f"### What failed ({len(failures)})", "", *(f"- {_plain(line)}" for line in failures[:LONGEST]), *more]


def _table(columns: list[str], rows: list[list[str]]) -> list[str]:
    lines = [columns, ["---"] * len(columns), *rows]
    return [f"| {' | '.join(_plain(cell) for cell in line)} |" for line in lines]


def _plain(text: str) -> str:
    """One line that neither ends a cell nor steers a terminal."""
    return "".join(c if c.isprintable() else "�" for c in " ".join(text.split())).replace("|", "\\|")

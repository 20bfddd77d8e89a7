"""A campaign: its parts one after the other, each with a share of the time, and the files that it leaves."""

import os
import platform
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

import psutil

from asr_ablations.tools.files import REPOSITORY, read_json
from asr_ablations.tools.machine import cores
from asr_verdicts.files import Json, write, write_json
from asr_verdicts.terminal import bar
from tests.campaign.part import Context, Part, Report

LONGEST = 100
"""Failures of a part that the page lists; the JSON file has all."""


@dataclass
class Ended:
    """A part that has ended. ending: done; or how it ended early: interrupted, or the exception."""

    name: str
    description: str
    ending: str
    seconds: float
    report: Report

    @property
    def passed(self) -> bool:
        return self.ending == "done" and self.report.passed

    @property
    def verdict(self) -> str:
        failed = "passed" if self.report.passed else f"{len(self.report.failures)} failed"
        return failed if self.ending == "done" else self.ending

    @property
    def counts(self) -> str:
        return ", ".join(f"{name} {number}" for name, number in self.report.counts.items())


def run_campaign(parts: Sequence[Part], folder: Path, hours: float, seed: int, runs: Path | None = None) -> int:
    """The exit code: 0 if every part passed, 1 if not, 130 for Ctrl-C. Parts that ended in the same folder are left."""
    folder.mkdir(parents=True, exist_ok=True)
    head, ends, ended = facts(hours, seed), time.monotonic() + 3600 * hours, list[Ended]()
    for number, part in enumerate(parts):
        file = folder / f"{part.NAME}.json"
        earlier = read_json(file) if file.exists() else {}
        if earlier.get("ending") == "done":
            ended.append(Ended(**{**earlier, "report": Report(**earlier["report"])}))
        else:
            share = (ends - time.monotonic()) / (len(parts) - number)
            ended.append(_run_part(part, folder / part.NAME, max(share, 0.0), seed, runs))
            write_json(file, asdict(ended[-1]))
        print(f"{part.NAME}: {ended[-1].verdict} in {ended[-1].seconds / 60:.1f} min ({ended[-1].counts})", flush=True)
        page = write_report(folder, {**head, "ended": now()}, ended)
        if ended[-1].ending == "interrupted":
            print(f"interrupted; report of what ended: {page}", file=sys.stderr, flush=True)
            return 130
    print(f"report  {page}", flush=True)
    return 0 if all(part.passed for part in ended) else 1


def _run_part(part: Part, folder: Path, seconds: float, seed: int, runs: Path | None) -> Ended:
    shutil.rmtree(folder, ignore_errors=True)  # of a start that was interrupted
    folder.mkdir()
    started, ending, done = time.monotonic(), "done", 0.0
    with bar(part.NAME, 1.0) as add:

        def advance(share: float) -> None:
            nonlocal done
            add(share - done)
            done = share

        context = Context(folder, seed, seconds, advance, runs)
        try:
            report = part.run(context)
        except KeyboardInterrupt:
            ending, report = "interrupted", context.begun
        except Exception as error:
            ending, report = f"broken: {type(error).__name__}: {error}", context.begun
            report.failures.append("".join(traceback.format_exception(error)[-2:]))
    if not any(folder.iterdir()):
        folder.rmdir()
    return Ended(part.NAME, part.DESCRIPTION, ending, round(time.monotonic() - started, 1), report)


def write_report(folder: Path, head: Json, parts: list[Ended]) -> Path:
    """Write report.json, and report.md, whose path is returned. head: what was asked, when, and on what machine."""
    write_json(folder / "report.json", {**head, "parts": [{**asdict(part), "passed": part.passed} for part in parts]})
    lines = ["# Campaign", "", *(f"- {key}: {value}" for key, value in head.items()), ""]
    rows = [[part.name, part.verdict, f"{part.seconds / 60:.1f}", part.counts] for part in parts]
    lines += _table(["part", "verdict", "minutes", "counts"], rows)
    for part in parts:
        report = part.report
        lines += ["", f"## {part.name}", "", part.description, ""]
        lines += _table(report.columns, report.rows) if report.rows else []
        if failures := report.failures:
            lines += ["", f"### Failures ({len(failures)}; all are in {part.name}.json)", ""]
            lines += [f"- {_plain(line)}" for line in failures[:LONGEST]]
    write(folder / "report.md", "\n".join(lines) + "\n")
    return folder / "report.md"


def _table(columns: list[str], rows: list[list[str]]) -> list[str]:
    lines = [columns, ["---"] * len(columns), *rows]
    return [f"| {' | '.join(_plain(cell) for cell in line)} |" for line in lines]


def _plain(text: str) -> str:
    """One line that neither ends a cell nor steers a terminal."""
    return "".join(c if c.isprintable() else "�" for c in " ".join(text.split())).replace("|", "\\|")


def facts(hours: float, seed: int) -> Json:
    """What the figures of a report depend on."""
    git = ["git", "-C", str(REPOSITORY)]
    commit = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True).stdout.strip()
    edited = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True).stdout.strip()
    return {
        "started": now(),
        "commit": f"{commit or 'unknown'}{' with uncommitted changes' if edited else ''}",
        "machine": f"{platform.machine()}, {cores()} cores, {psutil.virtual_memory().total / 2**30:.0f} GB",
        "python": platform.python_version(),
        "load at the start": f"{os.getloadavg()[0]:.1f} processes",
        "hours asked": f"{hours:g}",
        "seed": seed,
    }


def now() -> str:
    return datetime.now().astimezone().isoformat(timespec="minutes")

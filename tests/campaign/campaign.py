"""A campaign: its parts one after the other, each with a share of the time, and the files that it leaves."""

import contextlib
import os
import platform
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path

import psutil

from asr_ablations.tools.files import REPOSITORY, read_json
from asr_ablations.tools.machine import cores
from asr_verdicts.files import Json, write, write_json
from asr_verdicts.terminal import bar
from tests.campaign.part import Context, Part, Report, continues
from tests.helpers.interpreter import interpreters

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
        lines += _failures(part.report.failures, part.name)
    write(folder / REPORT, "\n".join(lines) + "\n")
    return folder / REPORT


def _counts(report: Report) -> str:
    return ", ".join(f"{name} {number}" for name, number in report.counts.items())


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


INTERRUPTED = 130
"""The exit code that a shell gives for Ctrl-C."""


def run_campaign(parts: Sequence[Part], folder: Path, hours: float, seed: int, runs: Path | None = None) -> int:
    """The exit code: 0 if every part passed, 1 if not, 130 for Ctrl-C. A part that an earlier start in the same folder
    brought to its end is not run again; one that continues tries what is left, and what failed once more.
    """
    folder.mkdir(parents=True, exist_ok=True)
    head, ends, ended = facts(hours, seed), time.monotonic() + 3600 * hours, list[Ended]()
    for number, part in enumerate(parts):
        earlier = kept(folder, part.NAME)
        if earlier is not None and earlier.ending == "done" and not _is_left(part, earlier):
            print(f"{part.NAME}: ended before, {earlier.verdict}", flush=True)
            ended.append(earlier)
        else:
            share = (ends - time.monotonic()) / (len(parts) - number)
            earlier = earlier if continues(part) else None
            ended.append(_run_part(part, folder, max(share, 0.0), seed, runs, earlier))
            keep(folder, ended[-1])
        page = write_report(folder, {**head, "ended": now()}, ended)
        if ended[-1].ending == "interrupted":
            print(f"interrupted; report of what ended: {page}", file=sys.stderr, flush=True)
            return INTERRUPTED
    print(f"report  {page}", flush=True)
    return 0 if all(part.passed for part in ended) else 1


def _is_left(part: Part, earlier: Ended) -> bool:
    """Whether a part that continues has cases that were not tried, or failed."""
    return continues(part) and bool(earlier.report.failures or earlier.report.counts.get("not tried"))


def _run_part(part: Part, folder: Path, seconds: float, seed: int, runs: Path | None, earlier: Ended | None) -> Ended:
    own = folder / part.NAME
    if own.exists():  # of a start that was interrupted: a part begins with an empty folder
        number = next(n for n in range(1, 10_000) if not own.with_name(f"{own.name}.{n}").exists())
        own.rename(own.with_name(f"{own.name}.{number}"))
    own.mkdir()
    started, used, ending, done = time.monotonic(), processor_time(), "done", 0.0
    with bar(part.NAME, 1.0) as add:

        def advance(share: float, _: str) -> None:
            nonlocal done
            add(share - done)
            done = share

        tried = earlier.report.cases if earlier else []
        context = Context(own, seed, seconds, advance, runs, tried)
        try:
            report = part.run(context)
        except KeyboardInterrupt:
            ending, report = "interrupted", context.begun
        except Exception as error:
            ending, report = f"broken: {type(error).__name__}: {error}", context.begun
            report.failures.append("".join(traceback.format_exception(error)[-2:]))
    if not any(own.iterdir()):
        own.rmdir()
    took, worked = time.monotonic() - started, processor_time() - used
    if earlier:
        took, worked = took + earlier.seconds, worked + earlier.processor_seconds
    ended = Ended(part.NAME, part.DESCRIPTION, ending, round(took, 1), round(worked, 1), report)
    _print(ended)
    return ended


def processor_time() -> float:
    """Seconds that this process, the interpreters that commands are forked from, and all that have ended below them
    have used.
    """
    used = 0.0
    for pid in (os.getpid(), *interpreters()):
        with contextlib.suppress(psutil.NoSuchProcess):
            used += sum(psutil.Process(pid).cpu_times()[:4])  # own and children's, user and system
    return used


def _print(ended: Ended) -> None:
    counts = ", ".join(f"{name} {number}" for name, number in ended.report.counts.items())
    minutes = f"{ended.seconds / 60:.1f} min, {ended.processor_seconds / 60:.1f} of processor time"
    print(f"{ended.name}: {ended.verdict} in {minutes} ({counts})", flush=True)


def facts(hours: float, seed: int) -> Json:
    """What the figures of a report depend on."""
    git = ["git", "-C", str(REPOSITORY)]
    commit = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True).stdout.strip()
    edited = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True).stdout.strip()
    return {
        "started": now(),
        "commit": f"{commit or 'unknown'}{' with uncommitted changes' if edited else ''}",
        "machine": f"{processor()}, {cores()} cores, {psutil.virtual_memory().total / 2**30:.0f} GB",
        "python": platform.python_version(),
        "load at the start": f"{os.getloadavg()[0]:.1f} processes, priority {os.getpriority(os.PRIO_PROCESS, 0)}",
        "hours asked": f"{hours:g}",
        "seed": seed,
    }


def processor() -> str:
    """The processor's own name where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def now() -> str:
    return datetime.now().astimezone().isoformat(timespec="minutes")


def dated(parent: Path) -> Path:
    """A folder of this minute that is not there yet."""
    name = datetime.now().strftime("%Y-%m-%dT%H-%M")
    numbered = (parent / (name if number == 1 else f"{name}.{number}") for number in range(1, 10_000))
    return next(folder for folder in numbered if not folder.exists())

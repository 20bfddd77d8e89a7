"""Kills at random moments of a command's progress; the same command again must give what was never disturbed."""

import contextlib
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.campaign.commands import Result, adopt_orphans, environment, finish, left_running, run_command, until
from tests.campaign.part import Context, Report
from tests.campaign.victims import ARM, BESIDE, TRAIN, Victim, half_files, temporary, victims
from tests.helpers import interpreter
from tests.helpers.interpreter import Command
from tests.helpers.run_results import same

INTERVAL = 0.002
"""Seconds between two looks."""
GONE = 60.0
"""Seconds within which whatever a killed command had started must have ended."""
ENDED_BY = {signal.SIGKILL: {0, -9}, signal.SIGTERM: {0, 143, -15}, signal.SIGINT: {0, 130, -2}}
EQUAL, NOT_KILLED = "bit-equal", "ended before"


def state(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Size, time of change and inode of everything below a folder."""
    seen = {}
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(path := os.path.join(parent, name), follow_symlinks=False)
                seen[path] = (status.st_size, status.st_mtime_ns, status.st_ino)
    return seen


def wait_for_changes(folder: Path, number: float, running: Callable[[], bool]) -> int:
    """Wait until so many changes were seen, or the command has ended; how many were seen. Changes of one path between
    two looks are one.
    """
    before, changes = state(folder), 0
    while changes < number and running():
        time.sleep(INTERVAL)
        now = state(folder)
        changes += sum(before.get(path) != now.get(path) for path in before.keys() | now.keys())
        before = now
    return changes


class Undisturbed(NamedTuple):
    """The result of a victim that nothing disturbed, the changes seen in its folder, and its seconds."""

    result: object
    changes: int
    seconds: float


class Moment(NamedTuple):
    """After so many changes seen in the watched folder, and a delay in seconds."""

    signal: signal.Signals
    changes: int
    delay: float

    def __str__(self) -> str:
        return f"{self.signal.name} {1000 * self.delay:.0f} ms after change {self.changes}"


def draw_moment(generator: random.Random, number: int, undisturbed: Undisturbed) -> Moment:
    """A moment anywhere in the command's progress; the interval between two changes bounds the delay."""
    interval = undisturbed.seconds / max(undisturbed.changes, 1)
    changes = generator.randint(0, undisturbed.changes)
    signals = (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGINT)
    return Moment(signals[number % len(signals)], changes, generator.uniform(0, min(interval, 2.0)))


def started(victim: Victim, folder: Path, corpora: Path) -> Command:
    own = folder / "corpora" if victim.own_corpora else corpora
    return interpreter.start(victim.words(folder), environment(own, folder))


def run_undisturbed(victim: Victim, folder: Path, corpora: Path) -> Undisturbed:
    """Raises RuntimeError where the command fails by itself."""
    folder.mkdir(parents=True)
    began = time.monotonic()
    with started(victim, folder, corpora) as command:
        changes = wait_for_changes(folder / victim.watched, float("inf"), lambda: command.poll() is None)
        done = finish(command)
    if done.code != 0:
        raise RuntimeError(f"{victim.name} fails undisturbed: {done.errors[-500:]}")
    return Undisturbed(victim.result(folder), changes, time.monotonic() - began)


def kill(
    victim: Victim, folder: Path, corpora: Path, moment: Moment, expected: Undisturbed, generator: random.Random
) -> str:
    """The outcome: EQUAL, NOT_KILLED, or what was wrong. What both commands printed is left in the folder."""
    folder.mkdir()
    standing = {process.pid for process in left_running(set())}
    with contextlib.ExitStack() as stack:
        count = 2 if victim.kills == BESIDE else 1
        command, *others = [stack.enter_context(started(victim, folder, corpora)) for _ in range(count)]
        own = standing | {one.pid for one in (command, *others)}
        wait_for_changes(folder / victim.watched, moment.changes, lambda: command.poll() is None)
        command.poll(moment.delay)
        killed = _signal(victim, command, moment.signal, generator)
        done = finish(command)
        (folder / "killed.txt").write_text(f"{done}", encoding="utf-8")
        beside = [finish(other) for other in others]
        if not until(lambda: not left_running(own), GONE):
            left = left_running(own)
            for process in left:
                process.kill()
            return f"left running: {', '.join(process.name() for process in left)}"
    if wrong := _ended_wrongly(victim, moment, done, beside, killed):
        return wrong
    if damaged := half_files(folder):
        return f"half files: {', '.join(damaged[:5])}"
    with started(victim, folder, corpora) as command:
        again = finish(command)
    (folder / "again.txt").write_text(f"{again}", encoding="utf-8")
    if again.code != 0:
        return f"the same command again: exit code {again.code}: {again.errors.strip()[-300:]}"
    try:
        if not same(victim.result(folder), expected.result):
            return "another result"
    except (OSError, ValueError, KeyError) as error:
        return f"no result: {type(error).__name__}: {error}"
    if rest := temporary(folder):
        return f"temporary files left: {', '.join(rest[:3])}"
    return EQUAL if killed else NOT_KILLED


def _signal(victim: Victim, command: Command, number: int, generator: random.Random) -> bool:
    """Send the signal; whether there was somebody to receive it."""
    if command.poll() is not None:
        return False
    if victim.kills != ARM:
        command.send_signal(number)
        return True
    with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
        descendants = psutil.Process(command.pid).children(recursive=True)
        if arms := sorted(process.pid for process in descendants if os.getpgid(process.pid) == process.pid):
            os.kill(generator.choice(arms), number)
            return True
    return False


def _ended_wrongly(victim: Victim, moment: Moment, done: Result, beside: list[Result], killed: bool) -> str:
    """What is wrong with the exit codes and words of the killed command, and of the one beside it; "" for nothing."""
    if None in (done.code, *(other.code for other in beside)):
        return "hang"
    for other in beside:
        if other.code != 0:
            return f"the launcher beside it: exit code {other.code}: {other.errors.strip()[-300:]}"
    allowed = {0, 1, 130, 143} if victim.kills == ARM else ENDED_BY[moment.signal]
    if done.code not in (allowed if killed else {0}):
        return f"exit code {done.code}: {done.errors.strip()[-300:]}"
    at_exit = done.code == 0 and done.errors.startswith("Exception ignored in atexit")  # Python's, when all was done
    if moment.changes and "Traceback" in done.errors and not at_exit:
        return f"traceback: {done.errors.strip().splitlines()[-1][-300:]}"
    return ""


NAME = "kills"
DESCRIPTION = "SIGKILL, SIGTERM and SIGINT at random moments; the same command again is bit-equal to the undisturbed"
CASES = 270
COLUMNS = (EQUAL, NOT_KILLED, "failed", "SIGKILL", "SIGTERM", "SIGINT")


def run(context: Context) -> Report:
    """Each kind in turn. The folder of a case that failed is kept."""
    adopt_orphans()
    report = context.report("killed", "cases", *COLUMNS)
    work = context.folder / "work"
    work.mkdir(parents=True)
    known: dict[str, Undisturbed] = {}
    tally: dict[str, Counter[str]] = {}
    kinds = victims(trained(work))
    try:
        for number in context.while_time(range(CASES), CASES):
            victim = kinds[number % len(kinds)]
            if victim.name not in known:
                known[victim.name] = run_undisturbed(victim, work / f"undisturbed-{len(known)}", work / "corpora")
            generator = random.Random(f"{context.seed}-{number}")
            moment = draw_moment(generator, number // len(kinds), known[victim.name])
            folder = work / f"case-{number}"
            ended = kill(victim, folder, work / "corpora", moment, known[victim.name], generator)
            outcome = ended if ended in (EQUAL, NOT_KILLED) else "failed"
            tally.setdefault(victim.name, Counter()).update((outcome, moment.signal.name))
            report.count(outcome)
            if outcome == "failed":
                report.failures.append(f"case-{number}, {victim.name}, {moment}: {ended}")
                folder.rename(context.folder / folder.name)
            else:
                shutil.rmtree(folder)
    finally:
        for name, counts in tally.items():
            cases = sum(counts[column] for column in COLUMNS[:3])
            report.rows.append([name, str(cases), *(str(counts[column]) for column in COLUMNS)])
        shutil.rmtree(work, ignore_errors=True)
    return report


def trained(folder: Path) -> Path:
    """A finished run on the corpora in `folder`, which the others share."""
    outputs = folder / "trained"
    done = run_command(["src/train.py", *TRAIN, f"outputs={outputs}"], environment(folder / "corpora", folder))
    if done.code != 0:
        raise RuntimeError(f"the run that is to be decoded fails: {done.errors[-500:]}")
    (status,) = outputs.rglob("status.json")
    return status.parent

"""One kill: a command started, ended by a signal at a moment of its progress, started again, and compared."""

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.campaign.commands import Result, environment, finish, left_running, run_command, start, until
from tests.campaign.victims import ARM, BESIDE, Victim, half_files, temporary
from tests.helpers.interpreter import Command
from tests.helpers.run_results import same

INTERVAL = 0.002
"""Seconds between two looks."""
State = dict[str, tuple[int, int, int]]


def state(folder: Path) -> State:
    """Size, time of change and inode of everything below a folder."""
    seen: State = {}
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(parent, name)
            try:
                status = os.stat(path, follow_symlinks=False)
            except FileNotFoundError:
                continue
            seen[path] = (status.st_size, status.st_mtime_ns, status.st_ino)
    return seen


def wait_for_changes(folder: Path, number: float, running: Callable[[], bool]) -> int:
    """Wait until so many changes were seen, or the command has ended; how many were seen. Changes of one path between
    two looks are one, so a command shows fewer where the machine is busy.
    """
    before, changes = state(folder), 0
    while changes < number and running():
        time.sleep(INTERVAL)
        now = state(folder)
        changes += sum(before.get(path) != now.get(path) for path in before.keys() | now.keys())
        before = now
    return changes


GONE = 60.0
"""Seconds within which whatever a killed command had started must have ended."""
ENDED_BY = {signal.SIGKILL: {-9}, signal.SIGTERM: {143, -15}, signal.SIGINT: {130, -2}}
PRINTED, AGAIN = "killed.txt", "again.txt"
"""What the killed command printed, and the same one after it, in the folder of the case."""
EQUAL, NOT_KILLED = "bit-equal", "ended before"


class Undisturbed(NamedTuple):
    """A victim that nothing disturbed: its result, the changes seen in its folder, and the seconds that it took."""

    result: object
    changes: int
    seconds: float


@dataclass
class Moment:
    """After so many changes seen in the watched folder, and a delay in seconds."""

    signal: int
    changes: int
    delay: float

    def __str__(self) -> str:
        return f"{signal.Signals(self.signal).name} {1000 * self.delay:.0f} ms after change {self.changes}"


def drawn(generator: random.Random, number: int, undisturbed: Undisturbed) -> Moment:
    """A moment anywhere in the command's progress; the interval between two changes bounds the delay."""
    interval = undisturbed.seconds / max(undisturbed.changes, 1)
    changes = generator.randint(0, undisturbed.changes)
    signals = (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGINT)
    return Moment(signals[number % len(signals)], changes, generator.uniform(0, min(interval, 2.0)))


class Killer:
    """Kills victims in folders of their own, on corpora that all share."""

    def __init__(self, corpora: Path) -> None:
        self.corpora = corpora

    def undisturbed(self, victim: Victim, folder: Path) -> Undisturbed:
        """Raises RuntimeError where the command fails by itself."""
        folder.mkdir(parents=True)
        started = time.monotonic()
        with self._start(victim, folder) as command:
            changes = wait_for_changes(folder / victim.watched, float("inf"), lambda: command.poll() is None)
            done = finish(command)
        if done.code != 0:
            raise RuntimeError(f"{victim.name} fails undisturbed: {done.errors[-500:]}")
        return Undisturbed(victim.result(folder), changes, time.monotonic() - started)

    def kill(
        self, victim: Victim, folder: Path, moment: Moment, expected: Undisturbed, generator: random.Random
    ) -> str:
        """The outcome: EQUAL, NOT_KILLED, or what was wrong."""
        folder.mkdir()
        standing = {process.pid for process in left_running(set())}
        with contextlib.ExitStack() as stack:
            command = stack.enter_context(self._start(victim, folder))
            other = stack.enter_context(self._start(victim, folder)) if victim.kills == BESIDE else None
            own = {command.pid} | ({other.pid} if other else set())
            wait_for_changes(folder / victim.watched, moment.changes, lambda: command.poll() is None)
            command.poll(moment.delay)
            killed = self._signal(victim, command, moment.signal, generator)
            done = finish(command)
            (folder / PRINTED).write_text(f"exit code {done.code}\n{done.out}\n{done.errors}", encoding="utf-8")
            beside = finish(other) if other else None
            left = lambda: left_running(standing | own)  # noqa: E731
            if not until(lambda: not left(), GONE):
                names = ", ".join(process.name() for process in left())
                for process in left():
                    process.kill()
                return f"left running: {names}"
        if wrong := _ended_wrongly(victim, moment, done, beside, killed) or _damage(folder):
            return wrong
        again = run_command(victim.arguments(folder), self._environment(victim, folder))
        (folder / AGAIN).write_text(f"exit code {again.code}\n{again.out}\n{again.errors}", encoding="utf-8")
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

    def _signal(self, victim: Victim, command: Command, number: int, generator: random.Random) -> bool:
        """Send the signal; whether there was somebody to receive it."""
        if command.poll() is not None:
            return False
        if victim.kills != ARM:
            command.send_signal(number)
            return True
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
            descendants = psutil.Process(command.pid).children(recursive=True)
            arms = [process.pid for process in descendants if os.getpgid(process.pid) == process.pid]
            if arms:
                os.kill(generator.choice(sorted(arms)), number)
                return True
        return False

    def _start(self, victim: Victim, folder: Path) -> Command:
        return start(victim.arguments(folder), self._environment(victim, folder))

    def _environment(self, victim: Victim, folder: Path) -> dict[str, str]:
        return environment(folder / "corpora" if victim.own_corpora else self.corpora, folder)


def _ended_wrongly(victim: Victim, moment: Moment, done: Result, beside: Result | None, killed: bool) -> str:
    """What is wrong with the exit codes and words of the killed command, and of the one beside it; "" for nothing."""
    if done.code is None or (beside is not None and beside.code is None):
        return "hang"
    if beside is not None and beside.code != 0:
        return f"the launcher beside it: exit code {beside.code}: {beside.errors.strip()[-300:]}"
    allowed = {0, 1, 130, 143} if victim.kills == ARM else {0, *ENDED_BY[signal.Signals(moment.signal)]}
    if done.code not in (allowed if killed else {0}):
        return f"exit code {done.code}: {done.errors.strip()[-300:]}"
    at_exit = done.code == 0 and done.errors.startswith("Exception ignored in atexit")  # Python's, when all was done
    if moment.changes and "Traceback" in done.errors and not at_exit:
        return f"traceback: {done.errors.strip().splitlines()[-1][-300:]}"
    return ""


def _damage(folder: Path) -> str:
    damaged = half_files(folder)
    return f"half files: {', '.join(damaged[:5])}" if damaged else ""

"""`python <script> <arguments>` in a process of its own, forked from one that has imported torch, or a fresh one."""

import atexit
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

from tests.helpers.ending import kill_session, tell_at_end_of_parent

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCE = REPOSITORY / "src"
SECONDS = 1200  # a command that takes longer is killed
BEFORE_IMPORTS = ("OMP_", "MKL_", "KMP_", "PYTHON", "LD_", "MALLOC_", "MPL")
_started: dict[int, socket.socket] = {}


class Command:
    """A command that was started, as the leader of a session; killed when its context or this process ends."""

    def __init__(self, words: list[str], environment: Mapping[str, str], folder: Path, stdin: str, **how: Any) -> None:
        self.words = words
        self.given, self.out, self.errors = (_file() for _ in range(3))
        self.given.write(stdin)
        self.given.seek(0)
        request = {"words": words, "environment": dict(environment), "folder": str(folder), **how}
        self._status, theirs = os.pipe()
        with tempfile.TemporaryFile("w+") as file:
            json.dump(request, file)
            file.seek(0)
            files = [file.fileno(), *(one.fileno() for one in (self.given, self.out, self.errors)), theirs]
            socket.send_fds(_interpreter(environment, how.get("program")), [b"\n"], files)
        os.close(theirs)
        self._answer = b""
        pid = self._number(0, SECONDS)
        assert pid is not None, "nothing was started"
        self.pid = pid

    def poll(self, seconds: float = 0.0) -> int | None:
        """The exit code as subprocess gives it, negative after a signal; None if the command still runs then."""
        return self._number(1, seconds)

    def wait(self, seconds: float = SECONDS) -> int:
        """The exit code. Raises subprocess.TimeoutExpired, after the command was killed."""
        if (code := self._number(1, seconds)) is None:
            self.kill()
            raise subprocess.TimeoutExpired(self.words, seconds, _text(self.out), _text(self.errors))
        return code

    def finish(self) -> subprocess.CompletedProcess[str]:
        """Wait; the exit code and all that was printed."""
        return subprocess.CompletedProcess(self.words, self.wait(), _text(self.out), _text(self.errors))

    def lines(self, stream: str = "out") -> Iterator[str]:
        """The lines of `out` or `errors`, each as soon as it is written, until the command has ended."""
        file, begun, position = getattr(self, stream).fileno(), b"", 0
        while True:
            ended = self.poll() is not None  # before it reads: nothing is written afterwards
            while part := os.pread(file, 2**16, position):
                position += len(part)
                *whole, begun = (begun + part).split(b"\n")
                yield from (line.decode() for line in whole)
            if ended:
                return
            self.poll(0.05)

    def send_signal(self, number: int) -> None:
        """To the command alone, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End the command and what it has started in its session."""
        while self.poll() is None:
            kill_session(self.pid)
            self.poll(0.05)

    def _number(self, which: int, seconds: float) -> int | None:
        """The process's id or its exit code, as soon as it is known."""
        deadline = time.monotonic() + seconds
        while self._answer.count(b"\n") <= which:
            if not select.select([self._status], [], [], max(0, deadline - time.monotonic()))[0]:
                return None
            part = os.read(self._status, 100)
            assert part, "the interpreter that commands are started by has ended"
            self._answer += part
        return int(self._answer.split(b"\n")[which])

    def __enter__(self) -> "Command":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.close()

    def close(self) -> None:
        """Forget what was printed. Of a command that still runs nothing is known afterwards."""
        os.close(self._status)
        for file in (self.given, self.out, self.errors):
            file.close()


def _file() -> IO[str]:
    return tempfile.TemporaryFile("w+", encoding="utf-8", errors="surrogateescape")


def _text(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


def last_of_each(words: Sequence[str]) -> list[str]:
    """The words with the last value of each key alone: commands refuse a key that is typed twice."""
    keys = [word.partition("=")[0] if "=" in word else f"{number} " for number, word in enumerate(words)]
    return [word for number, word in enumerate(words) if keys[number] not in keys[number + 1 :]]


def start(
    arguments: Sequence[object],
    environment: Mapping[str, str],
    folder: Path = REPOSITORY,
    stdin: str = "",
    limits: Mapping[int, int] | None = None,
    fresh: bool | None = None,
) -> Command:
    """arguments: the script, after `-u` or not, and its words; limits: resource → the most that the command may have;
    fresh: whether it gets an interpreter of its own, by default where it is none of this checkout's commands.
    """
    words = [str(argument) for argument in arguments]
    if not any(word.endswith(("compare.py", "reproduce.py")) for word in words):
        words = last_of_each(words)
    if fresh is None:
        script = next(word for word in words if word != "-u")
        fresh = (folder / script).resolve().parent != SOURCE
    program = [sys.executable, *words] if fresh else None
    return Command(words, environment, folder, stdin, limits=[*(limits or {}).items()], program=program)


def python(
    arguments: Sequence[object],
    environment: Mapping[str, str],
    folder: Path = REPOSITORY,
    stdin: str = "",
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """The same, awaited. Raises subprocess.TimeoutExpired, after the command was killed."""
    with start(arguments, environment, folder, stdin, **options) as command:
        return command.finish()


def program(
    words: Sequence[str], environment: Mapping[str, str], folder: Path = REPOSITORY
) -> subprocess.CompletedProcess[str]:
    """Any program, found in PATH, as if it was a command: none of what it starts outlives the tests."""
    words = last_of_each(words)
    with Command(words, environment, folder, "", limits=[], program=words) as command:
        return command.finish()


def expect(code: int, done: subprocess.CompletedProcess[Any]) -> subprocess.CompletedProcess[Any]:
    """The ended command, which has this exit code."""
    assert done.returncode == code, f"{done.stdout}{done.stderr}"
    return done


def _interpreter(environment: Mapping[str, str], program: Sequence[str] | None) -> socket.socket:
    """The one that has read these variables; any starts a program, which reads its own."""
    if program and _started:
        return next(iter(_started.values()))
    read = {name: value for name, value in environment.items() if name.startswith(BEFORE_IMPORTS)}
    return loaded(tuple(sorted((read | {"OMP_NUM_THREADS": "2"}).items())))  # commands set their own number


def _leave(server: socket.socket, process: subprocess.Popen[bytes]) -> None:
    server.close()
    process.wait()


def interpreters() -> set[int]:
    """The processes of `loaded`."""
    return set(_started)


@cache
def loaded(variables: tuple[tuple[str, str], ...]) -> socket.socket:
    """An interpreter with these variables. It ends, and its commands with it, when this process does."""
    ours, theirs = socket.socketpair()
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith((*BEFORE_IMPORTS, "WANDB", "HYDRA"))
    }
    with theirs, tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("interpreter_server.py")), str(theirs.fileno())],
            env={**kept, **dict(variables)}, pass_fds=[theirs.fileno()], preexec_fn=tell_at_end_of_parent,
            start_new_session=True, stdin=subprocess.DEVNULL, stdout=printed, stderr=printed,
        )  # fmt: skip
        theirs.close()  # where the interpreter ends, the next line is empty
        with ours.makefile("r") as answers:
            ready = answers.readline()
        printed.seek(0)
        text = printed.read()
    assert (ready, text) == ("ready\n", ""), f"imports end or print: {text}"
    _started[process.pid] = ours
    atexit.register(_leave, ours, process)
    return ours

"""`python <script> <arguments>` from an interpreter that has torch imported already, as the arms of a sweep have: most
of a command's time in miniature is its imports.
"""

import importlib
import json
import os
import runpy
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCE = REPOSITORY / "src"
SECONDS = 600
"""A command that takes longer is killed: of those here each takes seconds."""
BEFORE_IMPORTS = ("OMP_", "MKL_", "KMP_", "PYTHON", "LD_", "MALLOC_", "MPL")
"""How the names of those variables begin that libraries read when they are loaded."""


def python(
    arguments: Sequence[object], environment: Mapping[str, str], folder: Path = REPOSITORY, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """The first of `arguments` is the script; one of another checkout gets an interpreter that has nothing imported.
    Raises subprocess.TimeoutExpired, after the command was killed.
    """
    words = [str(argument) for argument in arguments]
    if (folder / words[0]).resolve().parent != SOURCE:
        command = [sys.executable, *words]
        options = {"env": environment, "cwd": folder, "input": stdin, "timeout": SECONDS}
        return subprocess.run(command, capture_output=True, text=True, check=False, **options)
    with (
        tempfile.TemporaryFile("w+") as request,
        tempfile.TemporaryFile("w+") as given,
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as errors,
    ):
        given.write(stdin)
        given.seek(0)
        json.dump({"arguments": words, "environment": dict(environment), "folder": str(folder)}, request)
        request.seek(0)
        code = _ended(words, [request, given, out, errors], _before_imports(environment))
        out.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(words, code, out.read(), errors.read())


def _ended(words: list[str], files: Sequence[IO[str]], variables: tuple[tuple[str, str], ...]) -> int:
    server, _ = loaded(variables)
    socket.send_fds(server, [b"\n"], [file.fileno() for file in files])
    with server.makefile("r") as answers:
        pid = int(answers.readline())
        server.settimeout(SECONDS)
        try:
            return int(answers.readline())
        except TimeoutError:
            os.kill(pid, 9)
            loaded.cache_clear()  # its answer is still to come
            raise subprocess.TimeoutExpired(words, SECONDS) from None
        finally:
            server.settimeout(None)


def _before_imports(environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, value) for name, value in environment.items() if name.startswith(BEFORE_IMPORTS)))


@cache
def loaded(variables: tuple[tuple[str, str], ...]) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """An interpreter with these variables, which ends when the socket is closed: with this process."""
    ours, theirs = socket.socketpair()
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith((*BEFORE_IMPORTS, "WANDB", "HYDRA"))
    }
    with theirs, tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            env={**kept, **dict(variables)},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
        )
        with ours.makefile("r") as answers:
            ready = answers.readline()
        printed.seek(0)
        told = printed.read()
    assert (ready, told) == ("ready\n", ""), f"imports end or print: {told}"
    return ours, process


def serve(requests: socket.socket) -> None:
    """Start each command that is asked for, and tell how it ended. Returns in the started process, and when nobody asks
    any more.
    """
    sys.path.insert(0, str(SOURCE))
    from asr_ablations.sweep.processes import PRELOAD

    for name in PRELOAD:
        if "wandb" not in name:  # its temporary folder would go with the first command that ends
            importlib.import_module(name)
    assert "wandb" not in sys.modules
    requests.sendall(b"ready\n")
    while True:
        message, files, *_ = socket.recv_fds(requests, 1, 4)
        if not message:
            return
        if (pid := os.fork()) == 0:
            requests.close()
            become(files)
            return
        for file in files:
            os.close(file)
        requests.sendall(f"{pid}\n".encode())
        requests.sendall(f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n".encode())


def become(files: Sequence[int]) -> None:
    """Run the command of a request in this process; its exceptions end the interpreter as they would otherwise."""
    with open(files[0]) as file:
        request = json.load(file)
    for number, file in enumerate(files[1:]):
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = request["arguments"]
    del sys.path[1]  # of this file: a script's own folder comes first
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as asked:
        serve(asked)

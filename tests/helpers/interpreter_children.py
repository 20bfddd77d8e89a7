"""The Python processes that a command under test starts itself: forked like the command, from a process that was set
apart before the command began, and so knows nothing of it. Each would import everything once more.

Forked are the server that arms are forked from, and what runs a frozen config, in ranks or alone. Everything else, and
all that a command with an interpreter of its own starts, is started as ever.
"""

import ctypes
import inspect
import json
import multiprocessing.util
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

TORCHRUN = "asr_ablations.runs.torchrun"
MODULES = ("asr_ablations.runs.process", TORCHRUN)
"""What is forked of what is started with -m."""
PR_SET_CHILD_SUBREAPER = 36
Order = dict[str, Any]
"""words after `python`, environment, folder, session: whether it leads one, numbers: those of its files, blocked: the
signals that it gets none of.
"""
_libc = ctypes.CDLL(None)


def set_apart(source: str, close: Sequence[int], become: Callable[[Order, list[int]], NoReturn]) -> None:
    """Fork the process that this one's children are forked from, and have them started by it.

    source: what comes first in PYTHONPATH where this checkout's code is started; close: files that the process has no
    use for; become: makes a forked process what was ordered, with its files.
    """
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        for file in close:
            os.close(file)
        become(*_next_child(theirs))
    theirs.close()
    execute, spawn = subprocess.Popen._execute_child, multiprocessing.util.spawnv_passfds  # type: ignore[attr-defined]
    names = list(inspect.signature(execute).parameters)

    def execute_or_fork(self: Any, *given: Any) -> None:
        call = dict(zip(names, (self, *given), strict=True))
        words, environment = call["args"], {**(os.environ if call["env"] is None else call["env"])}
        plain = isinstance(words, (list, tuple)) and not (call["preexec_fn"] or call["pass_fds"] or call["shell"])
        if not (plain and words[0] == sys.executable and _is_forked(words[1:], environment, source)):
            execute(self, *given)
            return
        standard = [call[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        files = [number if file == -1 else file for number, file in enumerate(standard)]
        order = {"words": words[1:], "environment": environment, "folder": os.fspath(call["cwd"] or os.getcwd())}
        self.pid = _start(ours, {**order, "session": call["start_new_session"], "numbers": [0, 1, 2]}, files)
        self._child_created = True
        self._close_pipe_fds(*(call[f"{name}{end}"] for name in ("p2c", "c2p", "err") for end in ("read", "write")))

    def spawn_or_fork(path: str, arguments: Sequence[Any], passed: Sequence[int]) -> int:
        if "forkserver" not in arguments[-1]:
            return spawn(path, arguments, passed)
        order = {"words": ["-c", arguments[-1]], "environment": dict(os.environ), "folder": os.getcwd()}
        numbers = [0, 1, 2, *passed]
        return _start(ours, {**order, "session": False, "numbers": numbers}, numbers)

    subprocess.Popen._execute_child = execute_or_fork  # type: ignore[attr-defined]
    multiprocessing.util.spawnv_passfds = spawn_or_fork


def _is_forked(words: Sequence[str], environment: dict[str, str], source: str) -> bool:
    """Only this checkout's code is what has been imported."""
    module = words[words.index("-m") + 1] if "-m" in words[:2] else None
    return module in MODULES and environment.get("PYTHONPATH", "").split(os.pathsep)[0] == source


def _start(orders: socket.socket, order: Order, files: Sequence[int]) -> int:
    """The id of the process, which is a child of this one: the one between the two has ended, and whose children lose
    their parent become those of the next process above that asks for them.
    """
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        text = json.dumps({**order, "blocked": [*signal.pthread_sigmask(signal.SIG_BLOCK, ())]}).encode()
        socket.send_fds(orders, [len(text).to_bytes(4, "big")], files)
        orders.sendall(text)
        return int(orders.recv(100))
    finally:
        _libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _next_child(orders: socket.socket) -> tuple[Order, list[int]]:
    """Returns in each process that is ordered; ends with the one that orders."""
    while True:
        size, files, *_ = socket.recv_fds(orders, 4, 16)
        if not size:
            os._exit(0)
        text = orders.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
        reading, writing = os.pipe()
        if (between := os.fork()) == 0:
            between = os.getpid()
            if (child := os.fork()) == 0:
                while os.getppid() == between:  # it has its parent before it does anything
                    time.sleep(0.001)
                for file in (reading, writing):
                    os.close(file)
                orders.close()
                return json.loads(text), files
            os.write(writing, str(child).encode())
            os._exit(0)
        os.waitpid(between, 0)
        orders.sendall(os.read(reading, 100))
        for file in (reading, writing, *files):
            os.close(file)

"""The interpreter that commands are forked from: started with the number of a socket, from which it reads requests.

A forked command finds what a fresh interpreter would have after the same imports, and ends as one does, but for taking
its modules apart. What it starts itself of Python is forked, too, from a process set apart before the command began.
"""

import atexit
import builtins
import ctypes
import gc
import importlib
import inspect
import json
import multiprocessing.process
import multiprocessing.util
import os
import resource
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

HERE = Path(__file__).resolve()
SOURCE = HERE.parents[2] / "src"
sys.path[:0] = [str(SOURCE), str(HERE.parents[2])]

from tests.helpers.ending import end_with_parent, kill_session  # noqa: E402

SET_BY_IMPORTS: dict[str, str] = {}  # environment variables that the imports add
sys.path[1:3] = []  # a script finds its own folder first, and nothing of the tests
TORCHRUN = "asr_ablations.runs.torchrun"
MODULES = ("asr_ablations.runs.process", TORCHRUN)  # what is forked of what is started with -m
PR_SET_CHILD_SUBREAPER = 36
Order = dict[str, Any]
_libc = ctypes.CDLL(None)


def serve(requests: socket.socket) -> list[int]:
    """Fork a process for each request; return its files in it. Write its id and exit code into the last file."""
    from asr_ablations.sweep.processes import PRELOAD

    before = dict(os.environ)
    for name in PRELOAD:
        importlib.import_module(name)
    SET_BY_IMPORTS.update(os.environ.items() - before.items())
    assert threading.active_count() == 1, "a fork would leave these behind: " + str(threading.enumerate())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # this process's parent has ended
    gc.collect()
    gc.freeze()  # a forked process would copy what it looks through
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    requests.sendall(b"ready\n")
    running: dict[int, int] = {}
    try:
        while True:
            ready, _, _ = select.select([requests, woken], [], [])
            if woken in ready:
                os.read(woken, 2**12)
                for pid, status in list(running.items()):
                    ended, how = os.waitpid(pid, os.WNOHANG)
                    if ended:
                        os.write(status, f"{os.waitstatus_to_exitcode(how)}\n".encode())
                        os.close(running.pop(pid))
            if requests in ready:
                message, files, *_ = socket.recv_fds(requests, 1, 5)
                if not message:
                    sys.exit()
                status = files.pop()
                if (pid := os.fork()) == 0:  # of the server it keeps nothing
                    end_with_parent()
                    signal.set_wakeup_fd(-1)
                    for number in (signal.SIGCHLD, signal.SIGTERM):
                        signal.signal(number, signal.SIG_DFL)
                    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored after a shell's `&`
                    requests.close()
                    for file in (woken, wake, status, *running.values()):
                        os.close(file)
                    os.setsid()
                    running.clear()
                    return files
                running[pid] = status
                for file in files:
                    os.close(file)
                os.write(status, f"{pid}\n".encode())
    finally:
        for pid in running:
            kill_session(pid)


def become(files: Sequence[int]) -> NoReturn:
    """Run the command of a request in this process."""
    with open(files[0]) as file:
        request = json.load(file)
    for kind, most in request["limits"]:
        resource.setrlimit(kind, (most, most))
    standard = files[1:]
    if program := request["program"]:
        take_over(dict(enumerate(standard)), request["environment"], request["folder"])
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores, and a program inherits
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(program[0], program, request["environment"])
    set_apart(standard)
    take_over(dict(enumerate(standard)), SET_BY_IMPORTS | request["environment"], request["folder"])
    if request["words"][0] == "-u":
        sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]
        del request["words"][0]
    sys.argv = request["words"]
    be_unlike_others()
    script = os.path.abspath(sys.argv[0])
    sys.path[0] = os.path.dirname(script)
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__dict__.update(__file__=script, __builtins__=builtins)
    with open(script, "rb") as source:
        text = source.read()
    end(lambda: exec(compile(text, script, "exec"), main.__dict__))


def be_unlike_others() -> None:
    """Give this process what an interpreter draws or makes for itself at its start, and a fork shares with others."""
    import numpy as np
    import torch
    from wandb.sdk.data_types._private import MEDIA_TMP

    np.random.seed()  # Python's own does so by itself
    torch.default_generator.seed()
    MEDIA_TMP._finalizer.detach()  # the process that ends first would remove the folder of all
    MEDIA_TMP.__init__(suffix="wandb-media")  # type: ignore[misc]


def take_over(files: dict[int, int], environment: dict[str, str], folder: str) -> None:
    """files: number → the file that shall have it."""
    for number, file in files.items():
        os.dup2(file, number)
        if file not in files:
            os.close(file)
    os.chdir(folder)
    multiprocessing.process.ORIGINAL_DIR = folder
    os.environ.clear()
    os.environ.update(environment)
    if threads := environment.get("OMP_NUM_THREADS"):  # which torch read when it was loaded
        sys.modules["torch"].set_num_threads(int(threads))
    tempfile.tempdir = None  # known of another environment


def end(run: Callable[[], Any]) -> NoReturn:
    """Run, and end this process as the interpreter would."""
    code = 0
    try:
        run()
    except SystemExit as error:
        if not isinstance(error.code, int | None):
            print(error.code, file=sys.stderr)
        code = error.code & 0xFF if isinstance(error.code, int) else int(error.code is not None)
    except BaseException as error:
        trace = error.__traceback__
        error.__traceback__ = trace and trace.tb_next and trace.tb_next.tb_next  # from the script on
        sys.excepthook(type(error), error, error.__traceback__)
        code = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        code = 120
    if code == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(code)


def set_apart(close: Sequence[int] = ()) -> None:
    """Fork the process that this one's children are forked from, and have them started by it; it closes these files."""
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        for file in close:
            os.close(file)
        become_child(*_next_child(theirs))
    theirs.close()
    execute, spawn = subprocess.Popen._execute_child, multiprocessing.util.spawnv_passfds  # type: ignore[attr-defined]
    names = list(inspect.signature(execute).parameters)

    def execute_or_fork(self: Any, *given: Any) -> None:
        call = dict(zip(names, (self, *given), strict=True))
        words, environment = call["args"], {**(os.environ if call["env"] is None else call["env"])}
        plain = isinstance(words, (list, tuple)) and not (call["preexec_fn"] or call["pass_fds"] or call["shell"])
        if not (plain and words[0] == sys.executable and _is_forked(words[1:], environment)):
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


def _is_forked(words: Sequence[str], environment: dict[str, str]) -> bool:
    """Only this checkout's code is what has been imported."""
    module = words[words.index("-m") + 1] if "-m" in words[:2] else None
    return module in MODULES and environment.get("PYTHONPATH", "").split(os.pathsep)[0] == str(SOURCE)


def _start(orders: socket.socket, order: Order, files: Sequence[int]) -> int:
    """The id of the process, a child of this one, to which the system gives it when the one between has ended."""
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


def become_child(order: Order, files: list[int]) -> NoReturn:
    """Run what a command has ordered in this process."""
    high = [os.dup2(file, 200 + at) for at, file in enumerate(files)]  # out of the way of the numbers asked for
    for file in files:
        os.close(file)
    if order["session"]:
        os.setsid()
    signal.pthread_sigmask(signal.SIG_SETMASK, order["blocked"])
    environment, words = order["environment"], order["words"]
    before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    take_over(dict(zip(order["numbers"], high, strict=True)), SET_BY_IMPORTS | environment, order["folder"])
    be_unlike_others()
    if words[0] == "-c":
        sys.argv = ["-c"]
        end(lambda: exec(words[1], {"__name__": "__main__"}))
    if words[0] == "-u":
        sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]
    _, name, *arguments = words[words.index("-m") :]
    if name == TORCHRUN:  # which starts processes of its own
        set_apart()
    own = [place for place in sys.path[1:] if place not in before]
    sys.path[:] = [order["folder"], *environment["PYTHONPATH"].split(os.pathsep), *own]
    sys.argv = ["-m", *arguments]
    sys.modules.pop(name, None)  # it is to be __main__
    end(lambda: runpy.run_module(name, run_name="__main__", alter_sys=True))


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as asked:
        request_files = serve(asked)
    become(request_files)

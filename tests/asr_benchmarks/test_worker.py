"""Objects in processes of their own."""

import os
import signal
import time
from functools import partial

import pytest

from asr_ablations.tools.machine import cores
from asr_benchmarks.worker import Worker, WorkerError, missing


class Counter:
    def __init__(self, start=0):
        self.value = start

    def add(self, amount):
        self.value += amount
        return self.value

    def about(self):
        return {"cores": cores(), "threads": os.environ.get("OMP_NUM_THREADS"), "variable": os.environ.get("VARIABLE")}

    def grow(self):
        self.memory = bytearray(200_000_000)
        return sum(self.memory[::4096])

    def process(self):
        return os.getpid()

    def rest(self, seconds):
        time.sleep(seconds)

    def fail(self):
        raise ValueError("two plus two")

    def start_another(self):
        with Worker(Counter) as other:
            return other.call("add", 5)

    def die(self):
        os._exit(7)


class Impossible:
    def __init__(self):
        raise ImportError("no such framework")


def test_the_object_lives_on_between_calls_and_holds_its_own_memory():
    with Worker(partial(Counter, start=3)) as worker:
        assert worker.call("add", 4) == 7
        assert worker.call("add", 1) == 8
        before = worker.peak_memory()
        worker.call("grow")
        assert worker.peak_memory() - before > 150_000_000


def test_threads_limit_the_cores_and_the_environment_stays_in_the_process(monkeypatch):
    monkeypatch.delenv("VARIABLE", raising=False)
    with Worker(Counter, threads=1, environment={"VARIABLE": "this"}) as worker:
        assert worker.call("about") == {"cores": 1, "threads": "1", "variable": "this"}
    assert "VARIABLE" not in os.environ


def test_what_goes_wrong_is_one_line_with_the_trace_behind_it():
    with pytest.raises(WorkerError, match=r"^ValueError: two plus two$") as caught, Worker(Counter) as worker:
        worker.call("fail")
    assert "in fail" in caught.value.trace
    with pytest.raises(WorkerError, match=r"^ImportError: no such framework$"):
        Worker(Impossible)
    with pytest.raises(WorkerError, match=r"exit code 7"), Worker(Counter) as worker:
        worker.call("die")


def test_a_worker_with_children_starts_processes_of_its_own():
    with Worker(Counter, children=True) as worker:
        assert worker.call("start_another") == 5


def test_several_start_at_once_and_say_later_what_went_wrong():
    with Worker(Counter, wait=False) as good, Worker(Impossible, wait=False) as bad:
        assert good.call("add", 2) == 2
        with pytest.raises(WorkerError, match=r"^ImportError: no such framework$"):
            bad.call("add", 2)


def test_ctrl_c_is_the_parents_to_answer(capfd):
    """The parent also closes a process that is at work, which prints nothing."""
    with Worker(Counter) as worker:
        os.kill(worker.call("process"), signal.SIGINT)
        assert worker.call("add", 1) == 1
        worker._pipe.send(("rest", (0.5,)))
    assert capfd.readouterr().err == ""


def test_missing_packages_are_named():
    assert missing(["torch", "no_such_framework"]) == ["no_such_framework"]

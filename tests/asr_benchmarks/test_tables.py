"""What the benchmarks share. Workers import this file, so it imports little."""

import json
import os
import signal
import statistics
import time
from functools import partial

import pytest

from asr_ablations.tools.machine import cores
from asr_benchmarks.plots import plot
from asr_benchmarks.tables import Result, compare_results, join_tables, read, results
from asr_benchmarks.timing import Timing, in_turn, noise_notes
from asr_benchmarks.worker import Group, Worker, WorkerError
from asr_verdicts.errors import UsageError


class Variant:
    def __init__(self, name, calls):
        self.name, self.calls, self.count = name, calls, 0

    def __call__(self):
        self.count += 1
        self.calls.append(self.name)
        return float(self.count)


def test_variants_take_turns_who_begins_changes_and_warm_up_is_not_measured():
    calls = []
    timings = in_turn({name: Variant(name, calls) for name in "ab"}, steps=3, warmup=1)
    assert "".join(calls) == "abbaabba"
    assert timings["a"].seconds == (2, 3, 4)


def test_a_variant_out_of_budget_is_measured_as_often_as_it_must_be(monkeypatch):
    clock = iter(range(1000))
    monkeypatch.setattr("time.perf_counter", lambda: float(next(clock)))  # every call takes a second
    calls = []
    timings = in_turn({"a": Variant("a", calls)}, steps=100, warmup=50, budget=4.5)
    # five calls spend it; the first warm-up call never counts, and from the fifth on all do
    assert timings["a"].seconds == (5, 6, 7)


def test_a_row_tells_mean_median_and_the_spread_of_the_middle_half():
    timing = Timing((0.1, 0.2, 0.3, 0.4, 1.0))
    row = timing.row()
    assert row["ms"] == pytest.approx(300)
    assert row["mean ms"] == pytest.approx(400)
    assert row["sd ms"] == pytest.approx(1000 * statistics.stdev(timing.seconds))
    assert row["spread %"] == pytest.approx(100 * (0.4 - 0.2) / 0.3)
    assert noise_notes({"one": timing, "two": Timing((1.0, 1.05, 1.1))}) == [
        "noisy (interquartile range above 10 % of the median): one 67 %"
    ]


def test_wrong_counts_are_one_line():
    for wrong in (
        "steps=0: expected a whole number, 1 or more",
        "budget=0: expected seconds, above 0, or null for no limit",
    ):
        with pytest.raises(UsageError, match=f"benchmark.{wrong}"):
            in_turn({"a": Variant("a", [])}, **{"steps": 1, "warmup": 0, wrong.partition("=")[0]: 0})


class Counter:
    def __init__(self, start=0):
        self.value = start

    def add(self, amount):
        self.value += amount
        return self.value

    def about(self):
        return {
            "process": os.getpid(),
            "cores": os.sched_getaffinity(0),
            "threads": os.environ.get("OMP_NUM_THREADS"),
            "variable": os.environ.get("VARIABLE"),
        }

    def grow(self):
        self.memory = bytearray(200_000_000)
        return sum(self.memory[::4096])

    def rest(self, seconds):
        time.sleep(seconds)

    def fail(self):
        raise ValueError("two plus two")

    def identify(self):
        return [os.environ[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "OMP_NUM_THREADS")]

    def fail_as_the_second(self):
        if os.environ["RANK"] == "1":
            raise ValueError("out of memory")
        time.sleep(3600)  # as one that waits for the other's gradients

    def die(self):
        os._exit(7)


class Impossible:
    def __init__(self):
        raise ImportError("no such framework")


def test_the_object_lives_on_between_calls_with_its_own_memory_cores_and_environment(monkeypatch, capfd):
    """Ctrl-C is the parent's to answer, which also closes a process that is at work without a word."""
    monkeypatch.delenv("VARIABLE", raising=False)
    with Worker(partial(Counter, start=3), threads=1, environment={"VARIABLE": "this"}) as worker:
        about = worker.call("about")
        assert (len(about["cores"]), about["threads"], about["variable"]) == (1, "1", "this")
        assert worker.call("add", 4) == 7
        before = worker.peak_memory()
        worker.call("grow")
        assert worker.peak_memory() - before > 150_000_000
        os.kill(about["process"], signal.SIGINT)
        assert worker.call("add", 1) == 8
        worker._pipe.send(("rest", (0.5,)))
    assert "VARIABLE" not in os.environ
    assert capfd.readouterr().err == ""


def test_what_goes_wrong_is_one_line():
    with Worker(Counter, wait=False) as good, Worker(Impossible, wait=False) as bad:
        with pytest.raises(WorkerError, match=r"^ImportError: no such framework$"):
            bad.call("add", 2)
        assert good.call("add", 2) == 2
        with pytest.raises(WorkerError, match=r"^ValueError: two plus two$"):
            good.call("fail")
    with Worker(Counter) as worker, pytest.raises(WorkerError, match=r"exit code 7"):
        worker.call("die")


def test_ranks_know_their_numbers_and_the_error_of_any_ends_all():
    with Group(Counter, 2, threads=3, ranks=True) as group:
        assert group.call("identify") == [["0", "2", "0", "3"], ["1", "2", "1", "3"]]
        with pytest.raises(WorkerError, match=r"^ValueError: out of memory$"):
            group.call("fail_as_the_second")


@pytest.mark.skipif(cores() < 2, reason="one core")
def test_trainings_at_the_same_time_have_cores_of_their_own():
    with Group(Counter, 2, threads=1) as group:
        first, second = (about["cores"] for about in group.call("about"))
    assert [len(first), len(second)] == [1, 1]
    assert not first & second


def test_results_of_two_machines_stand_side_by_side_rows_by_what_is_no_measurement(tmp_path, capsys):
    mine = {
        "ratio": 1.5,
        "rows": [{"rnn": "lstm", "batch": 4, "ms": 10.0}, {"rnn": "gru", "batch": 4, "ms": 8.0}],
        "notes": ["a note"],
        "plots": [plot("Step time", "bars", "layer", "ms", {"all": {"lstm": 10.0, "gru": 8.0}})],
        "machine": {"processor": "A", "cores": 2},
    }
    theirs = {
        "ratio": 3.0,
        "rows": [{"rnn": "lstm", "batch": 4, "ms": 1.0}, {"rnn": "lstm", "batch": 8, "ms": None}],
        "machine": {"processor": "B", "cores": 16},
    }
    joined = join_tables({"mine": Result.from_json(mine), "theirs": Result.from_json(theirs)})
    assert joined["figures"] == [{"figure": "ratio", "value mine": 1.5, "value theirs": 3.0}]
    assert joined["rows"] == [
        {"rnn": "lstm", "batch": 4, "ms mine": 10.0, "ms theirs": 1.0},
        {"rnn": "gru", "batch": 4, "ms mine": 8.0, "ms theirs": None},
        {"rnn": "lstm", "batch": 8, "ms mine": None, "ms theirs": None},
    ]
    for name, content in (("mine", mine), ("theirs", theirs)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    files = [file for name in ("mine", "theirs") for file in results(tmp_path / f"{name}.json")]
    written = compare_results(files, tmp_path / "comparison")
    assert {path.name for path in written} == {"comparison.json", "report.md", "step-time.png", "step-time.svg"}
    report = (tmp_path / "comparison" / "report.md").read_text()
    for line in (
        "| lstm | 4 | 10 | 1 |",
        "| ratio | 1.5 | 3 |",
        "| processor | A | B |",
        "- mine: a note",
        "(step-time.png)",
    ):
        assert line in report
    assert "lstm" in capsys.readouterr().out


def test_runs_are_named_by_what_varies_and_kept_ones_left_out(tmp_path):
    for name, overrides in (("a", "x=1\ny=1"), ("b", "x=1\ny=2"), ("a.1", "x=1\ny=1")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "overrides").write_text(overrides)
        (tmp_path / name / "result.json").write_text('{"ratio": 1.5, "machine": {}}')
    assert list(read(results(tmp_path))) == ["y=1", "y=2"]
    assert results(tmp_path / "a") == [tmp_path / "a" / "result.json"]


@pytest.mark.parametrize("content", ["{", '{"ratio": 1}'])
def test_a_file_that_is_no_result_is_one_line(tmp_path, content):
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(UsageError, match=r"x\.json"):
        read([tmp_path / "x.json"])

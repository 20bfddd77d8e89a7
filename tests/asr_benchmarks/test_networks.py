"""The six networks of Shi2016 table 2: sizes, frameworks, seconds; and what all benchmarks share."""

import json
import math
import os
import signal
import statistics
import time
from functools import partial
from pathlib import Path

import pytest
import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf
from torch.utils.flop_counter import FlopCounterMode

from asr_ablations.tools.machine import cores
from asr_benchmarks.frameworks.network import draw_samples, draw_weights
from asr_benchmarks.frameworks.pytorch import Padded, Sequence, list_trained
from asr_benchmarks.networks import measure
from asr_benchmarks.plots import plot
from asr_benchmarks.tables import Result, compare_results, join_tables, read, results
from asr_benchmarks.timing import Timing, in_turn, noise_notes
from asr_benchmarks.worker import Group, Worker, WorkerError, make_trainer
from asr_verdicts.errors import UsageError
from tests.helpers.one_by_one import OneByOne

CONF = Path(__file__).resolve().parents[2] / "conf/benchmark/networks"
NAMES = sorted(path.stem for path in (CONF / "network").glob("*.yaml"))


def configured(group, name):
    return instantiate(OmegaConf.load(CONF / group / f"{name}.yaml"), _convert_="all")


def network(name, shrink=1, **changes):
    return configured("network", name)(name, shrink=shrink, **changes)


def begin(worker, framework, own, batch):
    """Let a OneByOne answer as the framework's trainer of a network."""
    chosen = configured("framework", framework)
    keys = {"batch": batch, "device": "cpu", "threads": 1, "tf32": False, "seed": 3}
    worker.call("begin", partial(make_trainer, chosen.trainer, own, **keys, **chosen.model))


@pytest.fixture(scope="module")
def torchs():
    """PyTorch's; the other frameworks need packages that the tests do not: make campaign PARTS=benchmarks."""
    with Worker(OneByOne, 1) as worker:
        yield worker


@pytest.mark.parametrize(
    ("name", "parameters", "millions", "inputs", "outputs"),
    [
        ("fcn5", 55_533_752, 55, 26_752, 26_752),  # Shi2016 table 2
        ("alexnet", 61_100_840, 61, 150_528, 1000),  # the parameters as torchvision's documentation has them
        ("resnet50", 25_557_032, None, 150_528, 1000),  # these, too; Table 2 has multiply-additions instead
        ("lstm32", 13_300_240, 13, 32, 10_000),
    ],
)
def test_the_sizes_are_those_of_the_paper(name, parameters, millions, inputs, outputs):
    own = network(name)
    assert own.parameters == parameters
    assert millions is None or int(parameters / 1e6) == millions == own.published
    assert (math.prod(own.shape), own.classes) == (inputs, outputs)
    assert own.words == (10_000 if own.kind == "RNN" else None)
    assert own.batch == {"FCN": 64, "CNN": 16, "RNN": 128}[own.kind]  # section 4


@pytest.mark.parametrize("name", [name for name in NAMES if name != "lstm64"])  # a longer lstm32
def test_operations_are_what_torch_counts(name):
    own = network(name)
    with torch.device("meta"):
        network_module = Sequence(own.layers, lambda sizes: Padded(sizes, own.variable))
        shape = (2, own.shape[2], *own.shape[:2]) if own.kind == "CNN" else (2, *own.shape)
        inputs = torch.zeros(shape, dtype=torch.float32 if own.words is None else torch.long)
        classes = torch.zeros((2, *own.shape) if own.words else 2, dtype=torch.long)
        assert sum(parameter.numel() for parameter in list_trained(network_module)) == own.parameters
        with FlopCounterMode(display=False) as counter:
            outputs = network_module(inputs)
            forward = counter.get_total_flops()
            torch.nn.functional.cross_entropy(outputs.flatten(0, -2), classes.flatten()).backward()
    assert forward == 2 * own.forward_operations
    # the state before the first word needs no gradient: torch leaves its product out, in each layer
    hidden = own.layers[1].hidden if own.words else 0
    without = 2 * hidden * 4 * hidden * 2
    assert counter.get_total_flops() == 2 * (own.training_operations - without)


@pytest.mark.parametrize(("name", "shrink"), [("fcn5", 256), ("lstm32", 64)])
def test_torch_trains_the_network(name, shrink, torchs):
    trains_the_network(torchs, "torch", network(name, shrink))


def trains_the_network(worker, framework, own):
    """Against autograd on the modules of torch.nn, written out here."""
    begin(worker, framework, own, 4)
    losses = [worker.call("step").loss for _ in range(3)]
    assert losses == pytest.approx((_fcn if own.kind == "FCN" else _lstm)(own), rel=1e-4)
    assert worker.call("step").seconds > 0
    assert worker.call("parameters") == own.parameters


def _fcn(own):
    weights = [torch.tensor(value, requires_grad=True) for value in draw_weights(own, 3).values()]
    inputs, _, classes = map(torch.from_numpy, draw_samples(own, 4, 3))
    losses = []
    for _ in range(3):
        x = inputs
        for kernel, bias in zip(weights[::2], weights[1::2], strict=True):
            x = (x.sigmoid() if x is not inputs else x) @ kernel + bias
        losses.append(_descend(x, classes, weights))
    return losses


def _lstm(own):
    named = {path: torch.tensor(value, requires_grad=True) for path, value in draw_weights(own, 3).items()}
    inputs, _, classes = map(torch.from_numpy, draw_samples(own, 4, 3))
    losses = []
    for _ in range(3):
        x = named["0.table"][inputs.long()]
        for n in range(2):
            hidden = cell = torch.zeros(len(x), x.shape[-1])
            steps = []
            for t in range(x.shape[1]):
                products = x[:, t] @ named[f"1.kernel{n}"] + hidden @ named[f"1.recurrent{n}"] + named[f"1.bias{n}"]
                entry, forget, new, out = products.chunk(4, dim=1)
                cell = forget.sigmoid() * cell + entry.sigmoid() * new.tanh()
                hidden = out.sigmoid() * cell.tanh()
                steps.append(hidden)
            x = torch.stack(steps, dim=1)
        outputs = x @ named["2.kernel"] + named["2.bias"]
        losses.append(_descend(outputs, classes, list(named.values())))
    return losses


def _descend(outputs, classes, weights):
    loss = -outputs.log_softmax(-1).gather(-1, classes.long()[..., None]).mean()
    for weight, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
        with torch.no_grad():
            weight -= 0.01 * gradient
    return loss.item()


def gives_the_same(reference, worker, framework, name):
    """Outputs and losses as those of the framework that the reference saw first."""
    few = {"blocks": [2, 1, 1, 1]} if name == "resnet50" else {}  # each kind of block: compiling all 16 takes minutes
    own = network(name, shrink=32, **few)
    begin(worker, framework, own, 8)
    reference.check(measure.Variant(own, framework, "cpu", 1, 8), worker)


def test_other_outputs_and_other_parameters_are_found_out(torchs):
    own = network("fcn5", shrink=256)
    variant = measure.Variant(own, "torch", "cpu", 1, 4)
    reference = measure.Reference(tf32=False)
    begin(torchs, "torch", own, 4)
    reference.check(variant, torchs)
    wider = measure.Variant(network("fcn8", shrink=256), "torch", "cpu", 1, 4)
    with pytest.raises(WorkerError, match="parameters instead of"):
        reference.check(wider, torchs)
    outputs, losses = reference.first["fcn5", 4]
    reference.first["fcn5", 4] = (outputs * 1.001, losses)
    begin(torchs, "torch", own, 4)
    with pytest.raises(WorkerError, match=r"outputs differ by 1\.0e-03"):
        reference.check(variant, torchs)
    reference.first["fcn5", 4] = (outputs, [losses[0], losses[1] * 1.001])
    begin(torchs, "torch", own, 4)
    with pytest.raises(WorkerError, match=r"losses differ by 0\.1 %"):
        reference.check(variant, torchs)


@pytest.mark.parametrize(("counts", "batches"), [([1.5], [1]), ([1], [0])])
def test_wrong_threads_and_batches_are_one_line(counts, batches):
    few = {"shrink": 1, "together": 1, "steps": 1, "warmup": 0, "budget": None}
    with pytest.raises(UsageError, match=r"^benchmark\.(threads|batches)=\[.*\]: expected"):
        next(measure.network_speed(None, networks={}, frameworks={}, only=[], threads=counts, batches=batches, **few))


class Variant:
    """Gives 1, 2, 3, … seconds and writes down when it was called."""

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


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"steps": 0}, "benchmark.steps=0: expected a whole number, 1 or more"),
        ({"budget": 0}, "benchmark.budget=0: expected seconds, above 0, or null for no limit"),
    ],
)
def test_wrong_counts_are_one_line(wrong, line):
    with pytest.raises(UsageError, match=line):
        in_turn({"a": Variant("a", [])}, **{"steps": 1, "warmup": 0, **wrong})


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

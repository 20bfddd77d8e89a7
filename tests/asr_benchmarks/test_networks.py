"""The six networks of Shi2016 table 2: sizes, frameworks, seconds; and what all benchmarks share."""

import math
from functools import partial
from pathlib import Path

import pytest
import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf
from torch.utils.flop_counter import FlopCounterMode

from asr_benchmarks.frameworks.network import draw_samples, draw_weights
from asr_benchmarks.frameworks.pytorch import Padded, Sequence, list_trained
from asr_benchmarks.networks import measure
from asr_benchmarks.worker import Worker, WorkerError, make_trainer
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

"""benchmark=lstm: every implementation computes the same, ratios are divisions, and notes name what is not measured."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from asr_ablations.components.rnn.lstm_fused import LSTMFused
from asr_ablations.config.build import build
from asr_benchmarks.lstm.agreement import LARGEST, Agreement, Expected, reference, refused
from asr_benchmarks.lstm.configuration import Configuration, Implementation, choose, draw_batch, draw_weights
from asr_benchmarks.lstm.published import (
    BASIC,
    CE_LONG,
    CE_SHORT,
    CUDNN,
    DEEP_CE,
    DEEP_CTC,
    KERAS_TF,
    rows,
    times_faster,
)
from asr_benchmarks.lstm.speed import lstm_speed
from asr_benchmarks.lstm.torch_implementations import LSTMCompiled, TorchCells
from asr_benchmarks.tables import Result
from asr_benchmarks.worker import Worker
from asr_verdicts.errors import UsageError
from tests.helpers.support import compose, composed_by_hydra, group_options

pytestmark = [  # what torch.compile does itself
    pytest.mark.filterwarnings("ignore:.*torch.jit.script_method.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
]

CTC = Configuration("ctc", 2, 6, True, 7, 4, [9, 20], "ctc", 5, 3)
CE = Configuration("ce", 2, 6, True, 7, 4, [12, 12], "ce", 5, 1)
ONE = Configuration("one", 1, 4, False, 3, 2, [8, 8], "ce", 3, 1)
CPU: Any = SimpleNamespace(gpus=0, nodes=1, seed=0)
NAMES = group_options("benchmark/lstm")


def implementation(name: str) -> Any:
    return build(compose(f"+benchmark/lstm@it={name}").it)


class InProcess:
    """A Training in this process, which is called like a Worker."""

    def __init__(self, training: Any) -> None:
        self.training = training

    def call(self, method: str) -> Any:
        return getattr(self.training, method)()


class OneByOne:
    """One object after another, in one process: importing a framework takes longer than what is asked of it."""

    def __init__(self, **_: Any) -> None:
        self.current: Any = None

    def begin(self, make: Callable[[], object]) -> None:
        self.current = make()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.current, name)


@pytest.fixture(scope="module")
def processes() -> Iterator[dict[str, Worker]]:
    """One for each implementation in another framework."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(replace(chosen, model=partial(OneByOne)).start(CTC, 0, "cpu", 1))
            for name in NAMES
            if (chosen := implementation(name)).packages
        }


def agreement(name: str, configuration: Configuration, processes: Mapping[str, Worker] | None = None) -> Agreement:
    chosen, expected = implementation(name), Expected(configuration, 0)
    make = partial(chosen.model, configuration=configuration, seed=0, device="cpu")
    if not chosen.packages:
        training: Any = InProcess(make())
        return expected.agreement(training)
    assert processes is not None
    processes[name].call("begin", make)
    return expected.agreement(processes[name])


def decrease(configuration: Configuration) -> float:
    """What plain PyTorch's first step takes off the loss."""
    return agreement("torch_packed", configuration).decrease


@pytest.mark.parametrize("name", [name for name in NAMES if name != "torch_lstm"])
def test_every_implementation_computes_the_reference_of_utterances_that_differ_in_length(
    name: str, processes: dict[str, Worker]
) -> None:
    own = agreement(name, CTC, processes)
    assert own.logits < 1e-6
    assert own.loss < 1e-5
    assert own.decrease == pytest.approx(decrease(CTC), rel=0.01)


@pytest.mark.parametrize("name", NAMES)
def test_cross_entropy_is_of_the_last_frame(name: str, processes: dict[str, Worker]) -> None:
    for configuration in (CE, ONE):
        own = agreement(name, configuration, processes)
        assert max(own.logits, own.loss) < 1e-6
        assert own.decrease == pytest.approx(decrease(configuration), rel=0.01)


def test_a_padded_lstm_is_none_that_reads_backwards_within_lengths() -> None:
    with pytest.raises(ValueError, match="torch_packed is the same with lengths"):
        agreement("torch_lstm", CTC)
    one_way = replace(CTC, bidirectional=False)
    assert agreement("torch_lstm", one_way).logits < 1e-6


def test_the_reference_is_torchs_lstm_and_loss() -> None:
    """With weights set by hand, without the code that the implementations share."""
    weights, batch = draw_weights(ONE, 3), draw_batch(ONE, 3)
    lstm = torch.nn.LSTM(ONE.features, ONE.units, batch_first=True)
    inputs, recurrent, bias = map(torch.from_numpy, weights.layers[0][0])
    values = {"weight_ih_l0": inputs, "weight_hh_l0": recurrent, "bias_ih_l0": bias, "bias_hh_l0": 0 * bias}
    lstm.load_state_dict(values)
    last = lstm(torch.from_numpy(batch.x))[0][:, -1]
    logits = last @ torch.from_numpy(weights.output).T + torch.from_numpy(weights.bias)
    loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(batch.labels[:, 0]))
    ours, nats = reference(ONE, weights, batch)
    np.testing.assert_allclose(ours, logits.detach().numpy(), atol=1e-6)
    assert nats == pytest.approx(loss.item(), abs=1e-6)


class JaxCTC:
    """For a Worker: a process that has imported JAX must not be forked, as this one is by other tests."""

    def each_and_gradient(self, logits: np.ndarray, lengths: np.ndarray, labels: np.ndarray) -> Any:
        import jax

        from asr_benchmarks.lstm.jax_scan import ctc

        def total(x: Any) -> Any:
            each = ctc(jax.nn.log_softmax(x), lengths.astype(np.int32), labels.astype(np.int32))
            return each.sum(), each

        gradient, each = jax.grad(total, has_aux=True)(logits)
        return np.asarray(each), np.asarray(gradient)


def test_jaxs_ctc_is_torchs_with_gradients(processes: dict[str, Worker]) -> None:
    generator = np.random.default_rng(0)
    logits = generator.standard_normal((3, 11, 5)).astype(np.float32)
    lengths, labels = np.array([11, 8, 6]), np.array([[1, 1, 2], [3, 4, 3], [2, 2, 2]])
    theirs = torch.from_numpy(logits).requires_grad_()
    counts = torch.full((3,), 3)
    log_probs = theirs.log_softmax(dim=-1).transpose(0, 1)
    nats = torch.nn.functional.ctc_loss(
        log_probs, torch.from_numpy(labels), torch.from_numpy(lengths), counts, reduction="none"
    )
    nats.sum().backward()
    processes["jax_scan"].call("begin", JaxCTC)
    each, gradient = processes["jax_scan"].call("each_and_gradient", logits, lengths, labels)
    np.testing.assert_allclose(each, nats.detach().numpy(), rtol=1e-5)
    assert theirs.grad is not None
    np.testing.assert_allclose(gradient, theirs.grad.numpy(), atol=1e-5)


def test_the_papers_configurations_are_those_of_its_table_3() -> None:
    chosen = choose(*_options())
    sizes = {
        configuration.name: (
            configuration.batch, configuration.frames[1], configuration.features, configuration.outputs,
            configuration.labels,
        )
        for configuration in chosen
    }  # fmt: skip
    assert sizes == {
        "1x320/CE-short": (64, 100, 123, 10, 1),
        "1x320/CE-long": (32, 1000, 123, 10, 1),
        "4x320/CE-long": (32, 1000, 123, 10, 1),
        "4x320/CTC-long": (32, 1000, 123, 59, 100),
    }
    lengths = draw_batch(chosen[3], 0).lengths
    assert lengths.max() == 1000
    assert lengths.min() >= 500
    assert all((configuration.layers, configuration.units) in {(1, 320), (4, 320)} for configuration in chosen)


def _options(scale: float = 1, **changes: Any) -> tuple[Any, list[str], float]:
    cfg = composed_by_hydra(("benchmark=lstm",), "benchmarks").benchmark
    networks = {key: dict(values) for key, values in cfg.networks.items()}
    for values in networks.values():
        values["frames"] = list(values["frames"])
    networks["ce_short"] |= changes
    return networks, list(cfg.configurations), scale


@pytest.mark.parametrize("scale", [0.001, 0.01, 0.03, 0.5, 2])
def test_scaled_sizes_stay_possible(scale: float) -> None:
    for configuration in choose(*_options(scale)):
        batch = draw_batch(configuration, 0)
        assert batch.lengths.min() >= 2 * configuration.labels or configuration.loss == "ce"
        assert len(batch.x) == max(1, round(scale * (64 if "short" in configuration.name else 32)))


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"units": 0}, r"benchmark.networks.ce_short.units=0: expected a whole number, 1 or more"),
        ({"bidirectional": 1}, r"ce_short.bidirectional=1: expected true or false"),
        ({"loss": "mse"}, r"ce_short.loss=mse: expected ce, ctc"),
        ({"frames": [3, 2]}, r"ce_short.frames=\[3, 2\]: expected two whole numbers"),
        ({"labels": 2}, r"ce_short.labels=2: expected 1 with loss=ce"),
        ({"loss": "ctc", "labels": 51}, r"ce_short.labels=51: expected half of the 100 frames at most"),
        ({"cells": 3}, r"benchmark.networks.ce_short=.*expected the keys name, layers"),
    ],
)
def test_a_wrong_network_is_one_line(change: dict[str, Any], line: str) -> None:
    with pytest.raises(UsageError, match=line):
        choose(*_options(**change))


def speed(implementations: dict[str, Implementation], **changes: Any) -> Result:
    options: dict[str, Any] = {
        "networks": {"one": asdict(ONE)}, "configurations": ["one"], "implementations": implementations,
        "only": None, "scale": 1, "steps": 2, "warmup": 0, "budget": None, "threads": 1,
    }  # fmt: skip
    *_, last = lstm_speed(CPU, **options | changes)
    return last


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"only": ["theano"]}, r"benchmark.only=\['theano'\]: expected null for all, or a list of some: torch_basic"),
        ({"configurations": ["short"]}, r"benchmark.configurations=\['short'\]: expected one or more of one"),
        ({"scale": 0}, r"benchmark.scale=0: expected a number above 0"),
        ({"steps": 0}, r"benchmark.steps=0: expected a whole number, 1 or more"),
        ({"threads": 0}, r"benchmark.threads=0: expected a whole number, 1 or more"),
        ({"budget": -1}, r"benchmark.budget=-1: expected seconds"),
    ],
)
def test_a_wrong_option_is_one_line(change: dict[str, Any], line: str) -> None:
    with pytest.raises(UsageError, match=line):
        speed({"torch_basic": implementation("torch_basic")}, **change)


class WrongLSTM(LSTMFused):
    """Forgets a little more than the others."""

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return super().forward(x, lengths) * 1.01


def test_other_numbers_and_missing_packages_are_notes_and_not_measured() -> None:
    fused = implementation("torch_fused")
    wrong = replace(fused, model=partial(TorchCells, layer=WrongLSTM))
    absent = replace(implementation("jax_scan"), packages=["jax", "no_such_framework"])
    result = speed({"fused": fused, "wrong": wrong, "jax_scan": absent})
    assert [row["implementation"] for row in result.tables["steps"]] == ["fused"]
    notes = "\n".join(result.notes)
    assert "jax_scan: not measured, no_such_framework not installed; pip install '.[benchmarks]'" in notes
    assert "one: wrong not measured, logits differ by" in notes
    assert f"torch {torch.__version__}" in notes
    (row,) = result.tables["steps"]
    assert row["x slowest"] == 1
    assert row["measurements"] == 2


def test_what_differs_is_refused() -> None:
    agreements = {
        "good": Agreement(1e-6, 1e-6, 0.5), "fine": Agreement(1e-6, 1e-6, 0.504),
        "other logits": Agreement(2 * LARGEST, 0.0, 0.5), "no number": Agreement(float("nan"), 0.0, 0.5),
        "other loss": Agreement(0.0, 30 * LARGEST, 0.5), "other gradient": Agreement(0.0, 0.0, 0.3),
    }  # fmt: skip
    reasons = refused(agreements, loss=20.0)
    assert list(reasons) == ["other logits", "no number", "other loss", "other gradient"]
    assert "lowers the loss by 0.3, the median by 0.5" in reasons["other gradient"]


def test_published_ratios_stand_beside_ours() -> None:
    measured = {(CE_LONG, KERAS_TF): 0.9, (CE_LONG, BASIC): 0.6, (CE_LONG, CUDNN): 0.3, (DEEP_CE, CUDNN): 2.0}
    ratios = rows(measured, [CE_LONG])
    table = {(row["configuration"], row["slower"], row["faster"]): row for row in ratios}
    assert len(table) == len(ratios)
    assert all(CE_LONG in row["configuration"] for row in ratios)
    row = table[CE_LONG, KERAS_TF, BASIC]
    assert (row["times"], row["ours"]) == (1.8, pytest.approx(1.5))
    assert table[CE_LONG, KERAS_TF, "cuDNNLSTM"]["ours"] == pytest.approx(3)
    gone = table[CE_LONG, "TensorFlow LSTMCell", BASIC]
    assert (gone["times"], gone["ours"], gone["no longer exists"]) == (1.6, None, "slower")
    assert all(row["source (published)"].startswith("Braun2018 §") and row["times"] <= row["up to"] for row in ratios)


def test_a_ratio_may_compare_two_configurations() -> None:
    """§4: from 4x320/CE-long to 4x320/CTC-long training slows down by 1.1x with cuDNN."""
    ratios = rows({(DEEP_CE, CUDNN): 2.0, (DEEP_CTC, CUDNN): 3.0}, [DEEP_CTC])
    (row,) = [row for row in ratios if row["ours"] is not None]
    assert (row["configuration"], row["times"], row["ours"]) == (f"{DEEP_CTC} : {DEEP_CE}", 1.1, 1.5)


def test_the_papers_slowest_is_the_unit_of_its_ratios() -> None:
    """§4: 7.2x and 5.1x for cuDNN, 1.8x for the basic cell of the long configuration."""
    assert times_faster(CE_LONG, CUDNN) == 7.2
    assert times_faster(CE_SHORT, CUDNN) == 5.1
    assert times_faster(CE_LONG, BASIC) == 1.8
    assert times_faster(CE_LONG, KERAS_TF) == 1
    assert times_faster(DEEP_CE, CUDNN) is None
    assert times_faster(CE_SHORT, None) is None


def test_the_compiled_step_serves_layers_of_any_input_size() -> None:
    lengths = torch.tensor([5, 5])
    for size in (3, 6):
        compiled, fused = LSTMCompiled(size, 4), LSTMFused(size, 4)
        fused.load_state_dict(compiled.state_dict())
        x = torch.randn(2, 5, size)
        torch.testing.assert_close(compiled(x, lengths), fused(x, lengths))

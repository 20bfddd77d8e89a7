"""benchmark=lstm: every implementation computes the same, ratios are divisions, and notes name what is not measured."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from asr_ablations.config.build import build
from asr_benchmarks.frameworks.network import Network, draw_samples, draw_weights
from asr_benchmarks.lstm.agreement import LARGEST, Agreement, Expected, compute_reference, refuse_others
from asr_benchmarks.lstm.speed import CUDNN, build_network, choose_networks, list_ratios, lstm_speed
from asr_benchmarks.tables import Result
from asr_benchmarks.worker import Implementation, make_trainer
from asr_verdicts.errors import UsageError
from tests.helpers.support import composed_by_hydra, group_options

SMALL: dict[str, Any] = {
    "name": "one", "layers": 1, "units": 4, "bidirectional": False, "features": 3, "batch": 2, "frames": [8, 8],
    "loss": "ce", "outputs": 3, "labels": 1,
}  # fmt: skip
DEEP = {**SMALL, "layers": 2, "units": 6, "bidirectional": True, "features": 7, "batch": 4, "outputs": 5}
VARIABLE = {**DEEP, "name": "ctc", "frames": [9, 20], "loss": "ctc", "labels": 3}
ONE, CTC = build_network(**SMALL), build_network(**VARIABLE)
CE = build_network(**{**DEEP, "name": "ce", "frames": [12, 12]})
CPU: Any = SimpleNamespace(gpus=0, nodes=1, seed=0)
KEYS: dict[str, Any] = {"seed": 0, "device": "cpu", "threads": 1, "tf32": False}


def implementation(name: str) -> Any:
    return build(composed_by_hydra(("benchmark=lstm",), "benchmarks").benchmark.implementations[name])


SLOW = ["torch_compiled"]  # compiling takes longer than all others together
NAMES = [name for name in group_options("benchmark/lstm") if not implementation(name).packages and name not in SLOW]
"""Those in PyTorch; the others need packages that the tests do not: make campaign PARTS=benchmarks."""


class InProcess:
    """A Trainer in this process, which is called like a Worker."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer

    def call(self, method: str, *arguments: object) -> Any:
        return getattr(self.trainer, method)(*arguments)


def agreement(name: str, network: Network) -> Agreement:
    chosen = implementation(name)
    worker: Any = InProcess(make_trainer(chosen.trainer, network, batch=network.batch, **KEYS, **chosen.model))
    return Expected(network, 0).compare(worker)


def decrease(network: Network) -> float:
    """What plain PyTorch's first step takes off the loss."""
    return agreement("torch_packed", network).decrease


@pytest.mark.parametrize("name", NAMES)
def test_every_implementation_computes_the_reference(name: str) -> None:
    """Of utterances that differ in length (CTC), and of the last frame alone (cross-entropy)."""
    for network in (CE,) if name == "torch_lstm" else (CTC, CE):
        own = agreement(name, network)
        assert own.logits < 1e-6
        assert own.loss < (1e-5 if network is CTC else 1e-6)
        assert own.decrease == pytest.approx(decrease(network), rel=0.01)


def test_a_padded_lstm_is_none_that_reads_backwards_within_lengths() -> None:
    with pytest.raises(ValueError, match="use torch_packed instead"):
        agreement("torch_lstm", CTC)
    one_way = build_network(**{**VARIABLE, "bidirectional": False})
    assert agreement("torch_lstm", one_way).logits < 1e-6


def test_the_reference_is_torchs_lstm_and_loss() -> None:
    """With weights set by hand, without the code that the implementations share."""
    weights, samples = draw_weights(ONE, 3), draw_samples(ONE, 2, 3)
    lstm = torch.nn.LSTM(3, 4, batch_first=True)
    inputs, recurrent, bias = (torch.from_numpy(weights[f"0.{kind}0"].T) for kind in ("kernel", "recurrent", "bias"))
    values = {"weight_ih_l0": inputs, "weight_hh_l0": recurrent, "bias_ih_l0": bias, "bias_hh_l0": 0 * bias}
    lstm.load_state_dict(values)
    last = lstm(torch.from_numpy(samples.inputs))[0][:, -1]
    logits = last @ torch.from_numpy(weights["2.kernel"]) + torch.from_numpy(weights["2.bias"])
    loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(samples.targets).long())
    ours, nats = compute_reference(ONE, weights, samples)
    np.testing.assert_allclose(ours, logits.detach().numpy(), atol=1e-6)
    assert nats == pytest.approx(loss.item(), abs=1e-6)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"loss": "mse"}, r"ce_short.loss=mse: expected ce, ctc"),
        ({"labels": 2}, r"ce_short.labels=2: expected 1 with loss=ce"),
        ({"loss": "ctc", "labels": 51}, r"ce_short.labels=51: expected at most half of the 100 frames"),
        ({"cells": 3}, r"benchmark.networks.ce_short=.*expected the keys name, layers"),
    ],
)
def test_a_wrong_network_is_one_line(change: dict[str, Any], line: str) -> None:
    cfg = composed_by_hydra(("benchmark=lstm",), "benchmarks").benchmark
    networks = {key: {**values, "frames": list(values.frames)} for key, values in cfg.networks.items()}
    networks["ce_short"] |= change
    with pytest.raises(UsageError, match=line):
        choose_networks(networks, list(cfg.configurations), 1)


def speed(implementations: dict[str, Implementation], **changes: Any) -> Result:
    options: dict[str, Any] = {
        "networks": {"one": SMALL}, "configurations": ["one"], "implementations": implementations,
        "only": None, "scale": 1, "steps": 2, "warmup": 0, "budget": None, "threads": 1,
    }  # fmt: skip
    *_, last = lstm_speed(CPU, **options | changes)
    return last


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"only": ["theano"]}, r"benchmark.only=\['theano'\]: expected null for all, or a list of some: torch_basic"),
        ({"configurations": ["short"]}, r"benchmark.configurations=\['short'\]: expected one or more of one"),
    ],
)
def test_a_wrong_option_is_one_line(change: dict[str, Any], line: str) -> None:
    with pytest.raises(UsageError, match=line):
        speed({"torch_basic": implementation("torch_basic")}, **change)


def test_missing_packages_are_notes_and_not_measured() -> None:
    absent = replace(implementation("jax_scan"), packages=["torch", "no_such_framework"])
    result = speed({"fused": implementation("torch_fused"), "jax_scan": absent})
    (row,) = result.tables["steps"]
    assert (row["implementation"], row["x slowest"], row["measurements"]) == ("fused", 1, 2)
    notes = "\n".join(result.notes)
    assert "jax_scan left out, no_such_framework not installed: pip install '.[benchmarks]'" in notes
    assert f"torch {torch.__version__}" in notes


def test_what_differs_is_refused() -> None:
    agreements = {
        "good": Agreement(1e-6, 1e-6, 0.5), "fine": Agreement(1e-6, 1e-6, 0.504),
        "other logits": Agreement(2 * LARGEST, 0.0, 0.5), "no number": Agreement(float("nan"), 0.0, 0.5),
        "other loss": Agreement(0.0, 30 * LARGEST, 0.5), "other gradient": Agreement(0.0, 0.0, 0.3),
    }  # fmt: skip
    reasons = refuse_others(agreements, loss=20.0)
    assert list(reasons) == ["other logits", "no number", "other loss", "other gradient"]
    assert "lowers the loss by 0.3, the median by 0.5" in reasons["other gradient"]


def test_published_ratios_stand_beside_ours() -> None:
    long, basic, keras = "1x320/CE-long", "PyTorch LSTMCell-basic", "Keras/TensorFlow LSTM"
    measured = {(long, keras): 0.9, (long, basic): 0.6, (long, CUDNN): 0.3, ("4x320/CE-long", CUDNN): 2.0}
    ratios = list_ratios(measured, [long])
    table = {(row["configuration"], row["slower"], row["faster"]): row for row in ratios}
    assert len(table) == len(ratios)
    assert all(long in row["configuration"] for row in ratios)
    row = table[long, keras, basic]
    assert (row["times"], row["ours"]) == (1.8, pytest.approx(1.5))
    assert table[long, keras, "cuDNNLSTM"]["ours"] == pytest.approx(3)
    gone = table[long, "TensorFlow LSTMCell", basic]
    assert (gone["times"], gone["ours"], gone["no longer exists"]) == (1.6, None, "slower")
    assert all(row["source (published)"].startswith("Braun2018 §") and row["times"] <= row["up to"] for row in ratios)

"""Recurrent layers against torch's in float64, utterance by utterance, values and gradients."""

import copy
from typing import Any

import pytest
import torch
from torch import nn

from asr_ablations.components.model.directions import Directions
from asr_ablations.components.rnn.gru import GRU
from asr_ablations.components.rnn.lstm import LSTM
from asr_ablations.components.rnn.rnn import RNN
from asr_ablations.components.rnn.rnn_relu import RNNClippedReLU
from asr_ablations.native import extension

CELLS = {
    "lstm": LSTM,
    "gru": GRU,
    "tanh": lambda d, h: RNN(d, h, nonlinearity="tanh"),
    "relu": lambda d, h: RNN(d, h, nonlinearity="relu"),
    "clipped": lambda d, h: RNNClippedReLU(d, h, ceiling=0.5),
}
SHAPES = {  # B, T, D, H, directions, threads, lengths
    "odd": (3, 7, 5, 6, "sum", 1, [7, 0, 1]),
    "wide": (5, 9, 33, 97, "concat", 3, [3, 9, 1, 0, 9]),
    "one": (1, 1, 1, 1, "sum", 2, [1]),
    "empty": (2, 4, 3, 50, "forward", 2, [0, 0]),
    "nobody": (0, 3, 4, 5, "sum", 1, []),
    "no frames": (2, 0, 4, 5, "sum", 1, [0, 0]),
    "even": (9, 12, 48, 64, "sum", 4, [12, 11, 12, 5, 0, 7, 12, 2, 12]),
    "beyond": (2, 4, 3, 17, "concat", 1, [9, 4]),  # a length beyond the frames is cut
}
ERROR = {False: 5e-6, True: 2e-2}
"""Largest error of values and, relative to the largest, of gradients: float32, and products in bfloat16 (8 bits)."""


def outcome(layer: Directions, x: torch.Tensor, lengths: torch.Tensor, weight: torch.Tensor, bfloat16: bool) -> Any:
    """Values, and gradients of x and the weights."""
    x = x.clone().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
        y = layer(x, lengths)
    gradients = torch.autograd.grad((y * weight).sum() + 0 * x.sum(), [x, *layer.parameters()], allow_unused=True)
    return y.detach(), [torch.zeros(()) if g is None else g for g in gradients]


def exact(layer: Directions, x: torch.Tensor, lengths: torch.Tensor, weight: torch.Tensor) -> Any:
    """In float64, each utterance alone, cut to its length."""
    layer = copy.deepcopy(layer).double()
    x = x.double().requires_grad_()
    rows = []
    for row, length in zip(x, lengths.clamp(max=x.shape[1]).tolist(), strict=True):
        y = x.new_zeros(x.shape[1], layer.size)
        if length:
            y = torch.cat([layer(row[None, :length], torch.tensor([length]))[0], y[length:]])
        rows.append(y)
    y = torch.stack(rows) if rows else x.new_zeros(0, x.shape[1], layer.size)
    total = (y * weight.double()).sum() + 0 * x.sum() + 0 * sum(p.sum() for p in layer.parameters())
    return y.detach(), torch.autograd.grad(total, [x, *layer.parameters()])


@pytest.mark.parametrize("bfloat16", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_values_and_gradients_are_those_of_float64(target: str, cell: str, bfloat16: bool) -> None:
    for name, (B, T, D, H, directions, threads, lengths) in SHAPES.items():
        torch.manual_seed(len(name))
        torch.set_num_threads(threads)
        layer = Directions(CELLS[cell], D, H, directions=directions).train()
        x, numbers = torch.randn(B, T, D), torch.tensor(lengths, dtype=torch.long)
        weight = torch.randn(B, T, layer.size)
        y, gradients = outcome(layer, x, numbers, weight, bfloat16)
        expected, expected_gradients = exact(layer, x, numbers, weight)
        torch.testing.assert_close(y.double(), expected, rtol=0, atol=ERROR[bfloat16], msg=f"{name}: values")
        for gradient, reference in zip(gradients, expected_gradients, strict=True):
            difference, size = (gradient - reference).abs(), reference.abs()
            if not reference.numel():
                continue
            if bfloat16 and cell in ("relu", "clipped"):  # single ones jump where rounding moves a sum over a bound
                assert float(difference.square().mean()) <= 0.1**2 * float(size.square().mean()), f"{name}: gradients"
            else:
                assert float(difference.max()) <= ERROR[bfloat16] * max(1e-2, float(size.max())), f"{name}: gradients"


def test_the_library_runs(native: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the others do not hold torch against torch."""
    calls = []
    monkeypatch.setattr("asr_ablations.native.operations._call", lambda name, *_: calls.append(name))
    layer = Directions(LSTM, 3, 4, directions="sum").train()
    layer(torch.randn(2, 5, 3), torch.tensor([5, 2]))
    assert calls == ["recurrence_forward"]


def test_threads_and_batch_mates_change_no_bit(target: str) -> None:
    layer = Directions(LSTM, 20, 24, directions="sum").train()
    x, lengths = torch.randn(7, 11, 20), torch.tensor([11, 3, 0, 11, 7, 1, 9])
    weight = torch.randn(7, 11, 24)
    results = []
    for threads in (1, 2, 3, 8):
        torch.set_num_threads(threads)
        y, gradients = outcome(layer, x, lengths, weight, False)
        results.append(torch.cat([y.flatten(), *(g.flatten() for g in gradients)]))
    assert all(torch.equal(results[0], other) for other in results[1:])
    y, _ = outcome(layer, x, lengths, weight, False)
    alone, _ = outcome(layer, x[4:5, :7], lengths[4:5], weight[4:5, :7], False)
    assert torch.equal(alone[0], y[4, :7])


def test_a_nan_stays_one(target: str) -> None:
    for make in CELLS.values():
        layer = Directions(make, 3, 4, directions="sum").train()
        x = torch.randn(2, 5, 3)
        x[0, 2, 1] = float("nan")
        y, gradients = outcome(layer, x, torch.tensor([5, 5]), torch.ones(2, 5, 4), False)
        assert y[0, 2].isnan().all()
        assert not y[1].isnan().any()
        assert gradients[1].isnan().any()


def test_targets_agree_in_bfloat16() -> None:
    """Without the instruction operands are rounded and multiplied in float32: only the order of sums differs."""
    results = []
    torch.manual_seed(0)
    layer, x = Directions(GRU, 30, 40, directions="sum").train(), torch.randn(4, 9, 30)
    for name in extension.TARGETS:
        try:
            extension.load(name)
        except extension.NativeError:
            continue
        extension.use(name)
        results.append(outcome(layer, x, torch.tensor([9, 9, 4, 1]), torch.ones(4, 9, 40), True)[0])
    if len(results) < 2:
        pytest.skip("one target alone here")
    for other in results[1:]:
        torch.testing.assert_close(results[0], other, rtol=0, atol=2e-3)


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU])
def test_weights_that_change_before_the_backward_pass_are_refused(native: str, layer: type) -> None:
    """As torch refuses them: gradients would be of other weights."""
    directions = Directions({nn.LSTM: LSTM, nn.GRU: GRU}[layer], 3, 4, directions="sum").train()
    y = directions(torch.randn(2, 5, 3), torch.tensor([5, 2])).sum()
    with torch.no_grad():
        next(directions.parameters()).add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()

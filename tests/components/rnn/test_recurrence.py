"""Recurrences with gradients written out: torch's own cells, in float64, and by finite differences."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck

from asr_ablations.components.rnn.gru import GRU
from asr_ablations.components.rnn.recurrence import GRURecurrence, PlainRecurrence
from asr_ablations.components.rnn.rnn import IN_PLACE, RNN
from asr_ablations.components.rnn.rnn_relu import RNNClippedReLU

INPUTS, HIDDEN = 5, 4
CELLS: dict[str, tuple[Any, Any]] = {
    "gru": (nn.GRU, lambda x, *weights: GRURecurrence.apply(x, *weights)),
    "tanh": (nn.RNN, lambda x, *weights: PlainRecurrence.apply(x, *weights, *IN_PLACE["tanh"])),
    "relu": (nn.RNN, lambda x, *weights: PlainRecurrence.apply(x, *weights, *IN_PLACE["relu"])),
}
every_cell = pytest.mark.parametrize("name", CELLS)


def cell(name: str) -> Any:
    torch.manual_seed(1)
    options = {} if name == "gru" else {"nonlinearity": name}
    return CELLS[name][0](INPUTS, HIDDEN, batch_first=True, **options).double()


def inputs(batch: int = 3, frames: int = 20) -> torch.Tensor:
    generator = torch.Generator().manual_seed(2)
    return torch.randn(batch, frames, INPUTS, generator=generator, dtype=torch.float64).requires_grad_()


@every_cell
@pytest.mark.parametrize(("batch", "frames"), [(3, 20), (1, 1), (1, 7), (4, 1)])
def test_outputs_and_gradients_are_those_of_torchs_cell(name: str, batch: int, frames: int) -> None:
    """To 1e-12, also for one frame or one utterance."""
    theirs, x = cell(name), inputs(batch, frames)
    expected, result = theirs(x)[0], CELLS[name][1](x, *theirs.all_weights[0])
    torch.testing.assert_close(result, expected, atol=1e-12, rtol=0)
    weights = torch.randn(expected.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    leaves = [x, *theirs.parameters()]
    ours = torch.autograd.grad((result * weights).sum(), leaves)
    for gradient, other in zip(ours, torch.autograd.grad((expected * weights).sum(), leaves), strict=True):
        torch.testing.assert_close(gradient, other, atol=1e-12, rtol=0)


@every_cell
def test_gradients_are_the_finite_differences(name: str) -> None:
    assert gradcheck(CELLS[name][1], (inputs(2, 4), *cell(name).all_weights[0]))


def test_a_clipped_cell_passes_nothing_back_from_its_ceiling() -> None:
    """Units at 0 and at the ceiling have no gradient: those of every other one are the plain sum's."""
    torch.manual_seed(1)
    layer = RNNClippedReLU(INPUTS, HIDDEN, ceiling=0.5)
    x = inputs(batch=20, frames=1).detach().float().requires_grad_()
    y = layer(x, torch.ones(20, dtype=torch.long))
    assert {0.0, 0.5} < {*y.flatten().tolist()}, "some units at each end, and some between"
    (gradient,) = torch.autograd.grad(y.sum(), [x])
    moves = ((y > 0) & (y < 0.5)).float()
    torch.testing.assert_close(gradient, moves @ layer.cell.weight_ih_l0)


@pytest.mark.parametrize("layer", [GRU(INPUTS, HIDDEN), RNN(INPUTS, HIDDEN, nonlinearity="tanh")])
def test_layers_take_it_in_training_in_float32_alone(layer: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without gradients, and in 16 bits, torch's own cell computes the same."""
    x, lengths = inputs().detach().float(), torch.tensor([20, 20, 20])
    trained = layer(x, lengths)
    assert "Recurrence" in type(trained.grad_fn).__name__
    with torch.no_grad():
        torch.testing.assert_close(layer(x, lengths), trained.detach(), atol=1e-6, rtol=0)
    half = layer.bfloat16()(x.bfloat16(), lengths)
    assert "Recurrence" not in type(half.grad_fn).__name__
    torch.testing.assert_close(half.float(), trained, atol=0.05, rtol=0.05)

"""Floating point operations of a training step, counted by formula: a product and a sum are two."""

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

GATES = {nn.LSTM: 4, nn.GRU: 3, nn.RNN: 1}


def training_flops(model: Any, frames: torch.Tensor) -> float:
    """Forwards and backwards over utterances of `frames` (B,) feature frames, padding not counted. A gradient costs as
    much as the product again, for the inputs and for the weights; the first layer's input needs none.

    Convolutions, recurrent cells and linear layers; norms, activations and the loss are left out.
    """
    counted = list(_forward(model, frames))
    return 3 * sum(counted) - counted[0]


def _forward(model: Any, frames: torch.Tensor) -> Iterator[float]:
    for part in model.convolutions:
        frames = part.output_lengths(frames)
        yield 2 * part.convolve.weight.numel() * part.bins * float(frames.sum())
    after = [model.recurrent, model.lookahead, model.output]
    layers = itertools.chain.from_iterable(part.modules() for part in after if isinstance(part, nn.Module))
    yield sum(_a_frame(layer) for layer in layers) * float(frames.sum())


def _a_frame(layer: nn.Module) -> float:
    if type(layer) in GATES:
        return 2 * GATES[type(layer)] * layer.hidden_size * (layer.input_size + layer.hidden_size)  # type: ignore[operator, return-value]
    return 2 * layer.weight.numel() if isinstance(layer, (nn.Linear, nn.Conv1d)) else 0.0

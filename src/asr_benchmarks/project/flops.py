"""Floating point operations of a training step, counted by formula: a multiplication and an addition are two."""

import itertools
from collections.abc import Iterator

import torch
from torch import nn

from asr_ablations.components.model.ds2 import DeepSpeech2
from asr_benchmarks.project.layers import convolutions

GATES: dict[type[nn.Module], int] = {nn.LSTM: 4, nn.GRU: 3, nn.RNN: 1}


def training_flops(model: DeepSpeech2, frames: torch.Tensor) -> float:
    """Operations of the forward and the backward pass over utterances of `frames` (B,) feature frames, without those
    of padding. Each gradient costs as much as the product itself: one for the inputs, one for the weights; the first
    layer's input needs none.

    Convolutions, recurrent cells and linear layers count; norms, activations and the loss are left out.
    """
    counted = list(_forward(model, frames))
    return 3 * sum(counted) - counted[0]


def _forward(model: DeepSpeech2, frames: torch.Tensor) -> Iterator[float]:
    """Operations of the forward pass: those of each convolution, then those of all other layers."""
    for convolution in convolutions(model):
        frames = convolution.output_lengths(frames)
        yield 2 * convolution.convolve.weight.numel() * convolution.bins * float(frames.sum())
    others = [model.recurrent, model.lookahead, model.connected, model.output]
    layers = itertools.chain.from_iterable(part.modules() for part in others if isinstance(part, nn.Module))
    yield sum(_per_frame(layer) for layer in layers) * float(frames.sum())


def _per_frame(layer: nn.Module) -> float:
    if isinstance(layer, nn.RNNBase) and type(layer) in GATES:
        return 2.0 * GATES[type(layer)] * layer.hidden_size * (layer.input_size + layer.hidden_size)
    return 2.0 * layer.weight.numel() if isinstance(layer, (nn.Linear, nn.Conv1d)) else 0.0

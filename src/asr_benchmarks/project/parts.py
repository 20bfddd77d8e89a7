"""The time of a step's parts, each of them alone, forwards and backwards, on its inputs within the step. On a CPU it is
processor time, of all threads, which other work on the machine disturbs less.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TypeAlias, cast

import torch
from torch import nn

from asr_ablations.components.model.convolution import PaddedConvolution, WholeFrameConvolution
from asr_ablations.components.model.directions import Directions
from asr_ablations.components.model.ds2 import DeepSpeech2
from asr_ablations.data.batch import Batch
from asr_ablations.tools.machine import device_clock
from asr_ablations.training.task import CTCTask


def clock(device: torch.device) -> float:
    """Seconds: of the processor on a CPU, else of the device."""
    return time.process_time() if device.type == "cpu" else device_clock(device)


Convolution: TypeAlias = PaddedConvolution | WholeFrameConvolution


def model_of(task: CTCTask) -> DeepSpeech2:
    """The model of a task; every option of conf/model is a DeepSpeech2."""
    return cast(DeepSpeech2, task.model)


def convolutions(model: DeepSpeech2) -> list[Convolution]:
    """The convolutional layers of a model, from the input on."""
    return cast(list[Convolution], list(model.convolutions))


def recurrent_layers(model: DeepSpeech2) -> list[Directions]:
    """The recurrent layers of a model, from the input on."""
    return cast(list[Directions], list(model.recurrent))


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


def layer_flops(layer: Directions) -> float:
    """Operations of a recurrent layer's forward and backward pass over a frame of an utterance."""
    return 3 * sum(map(_per_frame, layer.modules()))


def _per_frame(layer: nn.Module) -> float:
    if isinstance(layer, nn.RNNBase) and type(layer) in GATES:
        return 2.0 * GATES[type(layer)] * layer.hidden_size * (layer.input_size + layer.hidden_size)
    return 2.0 * layer.weight.numel() if isinstance(layer, (nn.Linear, nn.Conv1d)) else 0.0


Context: TypeAlias = Callable[[], AbstractContextManager[object]]
"""Makes the context of a forward pass, in which the precision is set."""


def seconds_of_parts(task: CTCTask, batch: Batch, precision: Context) -> dict[str, float]:
    """Seconds of conv, rnn, norm and ctc over one batch, each in the second of two runs."""
    kinds = _kinds(model_of(task))
    inputs: dict[nn.Module, tuple[torch.Tensor, ...]] = {}
    hooks = [part.register_forward_pre_hook(lambda module, x: inputs.update({module: x})) for part in kinds]
    with torch.no_grad(), precision():
        features, frames = task.normalised_features(batch)
        log_probs, lengths = task.log_probs(features, frames)
    for hook in hooks:
        hook.remove()
    spent = dict.fromkeys(("conv", "rnn", "norm", "ctc"), 0.0)
    for part, kind in kinds.items():
        x, *others = inputs[part]
        spent[kind] += _seconds(part, x, others, precision)
    spent["ctc"] = _seconds(task.loss, log_probs, [lengths, batch], precision)
    return spent


def microseconds_per_frame(layer: Directions, batch: int, frames: list[int], precision: Context) -> float:
    """Microseconds per frame of a recurrent layer, forwards and backwards: the slope of its time over the frames."""
    weight = next(layer.parameters())
    seconds = []
    for count in (frames[0], frames[-1]):
        x = torch.randn(batch, count, _input_size(layer), device=weight.device, dtype=weight.dtype)
        lengths = torch.full((batch,), count)
        seconds.append(min(_seconds(layer, x, [lengths], precision) for _ in range(3)))
    return 1e6 * (seconds[1] - seconds[0]) / (frames[-1] - frames[0])


def _kinds(model: DeepSpeech2) -> dict[nn.Module, str]:
    """The parts of a model whose time is measured, and the kind that each counts to."""
    first = convolutions(model)
    products = {convolution.convolve: "conv" for convolution in first}
    norms = dict.fromkeys((*(convolution.norm for convolution in first), *model.norms), "norm")
    return {**products, **norms, **dict.fromkeys(recurrent_layers(model), "rnn")}


def _input_size(layer: Directions) -> int:
    return int(next(parameter.shape[-1] for parameter in layer.forwards.parameters() if parameter.dim() == 2))


def _seconds(part: Callable[..., torch.Tensor], x: torch.Tensor, others: Sequence[object], precision: Context) -> float:
    """Seconds of the second of two passes, forwards and, where there is a gradient, backwards."""
    seconds = 0.0
    for _ in range(2):
        x = x.detach().requires_grad_()
        started = clock(x.device)
        with precision():
            y = part(x, *others)
        if y.requires_grad:
            y.sum().backward()
        seconds = clock(x.device) - started
    return seconds

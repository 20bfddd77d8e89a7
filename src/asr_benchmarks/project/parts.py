"""The time of a step's parts, each of them alone, forwards and backwards, on its inputs within the step."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TypeAlias

import torch
from torch import nn

from asr_ablations.components.model.directions import Directions
from asr_ablations.components.model.ds2 import DeepSpeech2
from asr_ablations.data.batch import Batch
from asr_ablations.tools.machine import device_clock
from asr_ablations.training.task import CTCTask
from asr_benchmarks.project.layers import convolutions, model_of, recurrent_layers

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
        started = device_clock(x.device)
        with precision():
            y = part(x, *others)
        if y.requires_grad:
            y.sum().backward()
        seconds = device_clock(x.device) - started
    return seconds

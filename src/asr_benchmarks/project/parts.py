"""The time of a step's parts, each forwards and backwards alone on the inputs that it has within the step."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from asr_ablations.components.model.directions import Directions
from asr_ablations.tools.machine import device_clock

Context = Callable[[], AbstractContextManager[Any]]


def seconds_of_parts(task: Any, batch: Any, precision: Context) -> dict[str, float]:
    """Seconds of conv, rnn, norm and ctc over one batch, the second of two runs."""
    kinds = _kinds(task.model)
    inputs: dict[nn.Module, Any] = {}
    hooks = [part.register_forward_pre_hook(lambda m, x: inputs.update({m: x})) for part in kinds]
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


def microseconds_a_frame(layer: Directions, batch: int, frames: list[int], precision: Context) -> float:
    """Of a recurrent layer, forwards and backwards: the slope of its time over the number of frames."""
    weight = next(layer.parameters())
    took = []
    for count in (frames[0], frames[-1]):
        x = torch.randn(batch, count, _input_size(layer), device=weight.device, dtype=weight.dtype)
        lengths = torch.full((batch,), count)
        took.append(min(_seconds(layer, x, [lengths], precision) for _ in range(3)))
    return 1e6 * (took[1] - took[0]) / (frames[-1] - frames[0])


def _kinds(model: Any) -> dict[nn.Module, str]:
    convolutions = {part.convolve: "conv" for part in model.convolutions}
    norms = dict.fromkeys((*(part.norm for part in model.convolutions), *model.norms), "norm")
    return {**convolutions, **norms, **dict.fromkeys(model.recurrent, "rnn")}


def _input_size(layer: Directions) -> int:
    return int(next(parameter.shape[-1] for parameter in layer.forwards.parameters() if parameter.dim() == 2))


def _seconds(part: Callable[..., torch.Tensor], x: torch.Tensor, others: list[Any], precision: Context) -> float:
    took = 0.0
    for _ in range(2):
        x = x.detach().requires_grad_()
        started = device_clock(x.device)
        with precision():
            y = part(x, *others)
        if y.requires_grad:
            y.sum().backward()
        took = device_clock(x.device) - started
    return took

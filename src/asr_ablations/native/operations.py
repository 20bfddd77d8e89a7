"""Call the native library's operations, with gradients. Each of them replaces a part of a training step in PyTorch.

The operations support training on a CPU, in float32 or with bfloat16 products. Callers use PyTorch's operations if
`usable` is false: in evaluation, in export, on other devices, with other dtypes, and in function transforms.
"""

import ctypes
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch.autograd import forward_ad
from torch.autograd.function import once_differentiable
from torch.utils._python_dispatch import _get_current_dispatch_mode

from asr_ablations.native.extension import active

_long, _pointer, _double = ctypes.c_int64, ctypes.c_void_p, ctypes.c_double
KINDS = {"lstm": (0, 4), "gru": (1, 3), "tanh": (2, 1), "clipped": (3, 1)}
"""For each kind of cell, its number in recurrence.h and its number of gates."""


class Cell(NamedTuple):
    """One direction of a recurrent layer.

    - kind: a key of KINDS
    - weights: input weights, recurrent weights, input bias and recurrent bias, stacked as in torch.nn
    - ceiling: upper bound of the output of a `clipped` cell
    """

    kind: str
    weights: Sequence[torch.Tensor]
    ceiling: float = math.inf


def _fields(*groups: tuple[Any, str]) -> list[tuple[str, Any]]:
    return [(name, kind) for kind, names in groups for name in names.split()]


class _Layer(ctypes.Structure):
    _fields_ = _fields(
        (_long, "cell directions concatenated batch frames inputs units threads"),
        (_double, "ceiling"),
        (_pointer, "lengths x"),
        (_pointer * 2, "input hidden input_bias hidden_bias"),
        (_pointer, "output saved by_output by_x"),
        (_pointer * 2, "by_input by_hidden by_input_bias by_hidden_bias"),
    )


class _Norm(ctypes.Structure):
    _fields_ = _fields(
        (_long, "batch frames inner channels threads"),
        (_pointer, "lengths x weight bias mean deviation"),
        (_double, "epsilon low high"),
        (_pointer, "y variance by_y by_x by_weight by_bias"),
    )


class _Paths(ctypes.Structure):
    _fields_ = _fields(
        (_long, "batch frames outputs threads"),
        (_pointer, "log_probs lengths targets counts nats by_log_probs"),
    )


def usable(*tensors: torch.Tensor) -> bool:
    """Return whether the native library can process the tensors: float32, on a CPU, with gradients, and not traced."""
    return (
        active() is not None
        and torch.is_grad_enabled()
        and all(
            type(x) in (torch.Tensor, torch.nn.Parameter) and x.dtype == torch.float32 and x.device.type == "cpu"
            for x in tensors
        )
        and not torch.compiler.is_compiling()
        and not torch.jit.is_tracing()
        and not torch._C._are_functorch_transforms_active()
        and forward_ad._current_level < 0
        and _get_current_dispatch_mode() is None
    )


def _call(name: str, *arguments: object) -> None:
    library = active()
    assert library is not None, "callers must check usable()"
    if getattr(library, name)(*arguments):
        raise MemoryError(f"native {name}: out of memory")


def _at(x: torch.Tensor | None) -> int | None:
    return None if x is None else x.data_ptr()


def _pair(tensors: Sequence[torch.Tensor]) -> Any:
    return (_pointer * 2)(*map(_at, tensors))


def _lengths(lengths: torch.Tensor) -> torch.Tensor:
    return lengths.to("cpu", torch.int64).contiguous()


def recurrence(
    x: torch.Tensor, lengths: torch.Tensor, cells: Sequence[Cell], *, concatenate: bool, bfloat16: bool
) -> torch.Tensor:
    """Compute the outputs of one or two cells from x (B, T, D) and lengths (B,): the sum (B, T, H) or both (B, T, 2 H).

    The second cell reads each utterance from its end. The output is 0 after an utterance's end. With `bfloat16`, the
    inputs of products are rounded to bfloat16, and their sums are float32. Weights and states stay in float32.
    """
    first = cells[0]
    settings = first.kind, first.ceiling, concatenate, bfloat16, (x.shape, first.weights[1].shape[1])
    return _Recurrence.apply(x, _lengths(lengths), settings, *(w for cell in cells for w in cell.weights))


def _layer(settings: Any, lengths: torch.Tensor, weights: Sequence[torch.Tensor]) -> tuple[_Layer, int]:
    kind, ceiling, concatenate, bfloat16, ((B, T, D), H) = settings
    directions = len(weights) // 4
    sizes = (KINDS[kind][0], directions, concatenate, B, T, D, H, torch.get_num_threads())
    four = (_pair(weights[i::4]) for i in range(4))
    return _Layer(*sizes, ceiling, _at(lengths), None, *four), int(bfloat16)


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, lengths: torch.Tensor, settings: Any, *weights: torch.Tensor
    ) -> torch.Tensor:
        *_, concatenate, _, ((B, T, _), H) = settings
        x, weights = x.contiguous(), tuple(tensor.contiguous() for tensor in weights)
        layer, bfloat16 = _layer(settings, lengths, weights)
        saved = x.new_empty(cast(ctypes.CDLL, active()).recurrence_floats(ctypes.byref(layer), bfloat16))
        output = x.new_empty(B, T, H * (len(weights) // 4 if concatenate else 1))
        layer.x, layer.saved, layer.output = _at(x), _at(saved), _at(output)
        _call("recurrence_forward", ctypes.byref(layer), bfloat16)
        ctx.settings = settings
        ctx.save_for_backward(saved, lengths, *weights)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        saved, lengths, *weights = ctx.saved_tensors
        by_output = gradients[0].contiguous()
        layer, bfloat16 = _layer(ctx.settings, lengths, weights)
        by_x = by_output.new_empty(ctx.settings[-1][0]) if ctx.needs_input_grad[0] else None
        by_weights = [torch.empty_like(tensor) for tensor in weights]
        layer.saved, layer.by_output, layer.by_x = _at(saved), _at(by_output), _at(by_x)
        for place, name in enumerate(("by_input", "by_hidden", "by_input_bias", "by_hidden_bias")):
            setattr(layer, name, _pair(by_weights[place::4]))
        _call("recurrence_backward", ctypes.byref(layer), bfloat16)
        return by_x, None, None, *by_weights


def batch_norm(
    x: torch.Tensor,
    lengths: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    running: tuple[torch.Tensor, torch.Tensor],
    *,
    momentum: float,
    epsilon: float,
    low: float,
    high: float,
) -> torch.Tensor:
    """Normalise x (B, T, …, D) over valid positions, clip the result to low..high, and set padding to 0.

    This also updates the running mean and variance. x must have two or more valid positions.
    """
    return _BatchNorm.apply(x, weight, bias, _lengths(lengths), running, (momentum, epsilon, low, high))


class _BatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
        lengths: torch.Tensor,
        running: tuple[torch.Tensor, torch.Tensor],
        options: tuple[float, float, float, float],
    ) -> torch.Tensor:
        momentum, *rest = options
        x, y, D = x.contiguous(), torch.empty_like(x, memory_format=torch.contiguous_format), x.shape[-1]
        mean, deviation, variance = x.new_empty(D), x.new_empty(D), x.new_empty(D, dtype=torch.float64)
        tensors = (x, weight, bias, lengths, mean, deviation)
        norm = _norm(tensors, rest)
        norm.y, norm.variance = _at(y), _at(variance)
        _call("norm_forward", ctypes.byref(norm))
        ctx.rest = rest
        ctx.save_for_backward(*tensors)
        count = int(lengths.clamp(0, x.shape[1]).sum()) * (math.prod(x.shape[2:]) // D)
        running[0].lerp_(mean, momentum)
        running[1].lerp_((variance * (count / max(1, count - 1))).float(), momentum)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, weight, *_ = saved = ctx.saved_tensors
        by_y, by_x, by_weight, by_bias = gradients[0].contiguous(), *map(torch.empty_like, (x, weight, weight))
        norm = _norm(saved, ctx.rest)
        norm.by_y, norm.by_x, norm.by_weight, norm.by_bias = map(_at, (by_y, by_x, by_weight, by_bias))
        _call("norm_backward", ctypes.byref(norm))
        return by_x, by_weight, by_bias, None, None, None


def _norm(saved: Sequence[torch.Tensor], rest: Sequence[float]) -> _Norm:
    x, weight, bias, lengths, mean, deviation = saved
    B, T, *_, D = x.shape
    sizes = (B, T, math.prod(x.shape[2:]) // D, D, torch.get_num_threads())
    return _Norm(*sizes, *map(_at, (lengths, x, weight, bias, mean, deviation)), *rest)


def dropout(x: torch.Tensor, rate: float) -> torch.Tensor:
    """Set each element of x to 0 with probability `rate`, and multiply the other elements by 1 / (1 - rate).

    The seed of the mask is one number from torch's global random generator.
    """
    seed = int(torch.empty((), dtype=torch.int64).random_(-(2**63), None))
    return _Dropout.apply(x, rate, seed)


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, rate: float, seed: int) -> torch.Tensor:
        ctx.rate, ctx.seed = rate, seed
        return _drop(x, rate, seed)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return _drop(gradients[0], ctx.rate, ctx.seed), None, None


def _drop(x: torch.Tensor, rate: float, seed: int) -> torch.Tensor:
    x = x.contiguous()
    y, lowest = torch.empty_like(x), min(round(rate * 2**32), 2**32 - 1)
    numbers = ctypes.c_uint32(lowest), ctypes.c_uint64(seed % 2**64), ctypes.c_float(1 / (1 - rate))
    _call("drop", _long(x.numel()), *numbers, _pointer(_at(x)), _pointer(_at(y)))
    return y


def ctc(log_probs: torch.Tensor, targets: torch.Tensor, lengths: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Compute the CTC loss (B,) in nats of log_probs (B, T, V) for concatenated targets. The blank has index 0.

    counts: number of labels of each utterance, (B,). The loss is infinite if the labels do not fit into the frames.
      Raise ValueError for a label outside 1 to V - 1, or if the counts do not add up to the number of targets.
    """
    if int(counts.sum()) != len(targets) or bool((counts < 0).any()):
        raise ValueError(f"{len(targets)} targets: expected {int(counts.sum())}, the sum of the counts")
    if len(targets) and not (int(targets.min()) > 0 and int(targets.max()) < log_probs.shape[2]):
        raise ValueError(f"labels {int(targets.min())} to {int(targets.max())}: expected 1 to {log_probs.shape[2] - 1}")
    return _CTC.apply(log_probs, targets, lengths, counts)


class _CTC(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, log_probs: torch.Tensor, targets: torch.Tensor, lengths: torch.Tensor, counts: torch.Tensor
    ) -> torch.Tensor:
        log_probs, (B, T, V) = log_probs.contiguous(), log_probs.shape
        numbers = [_lengths(lengths), _lengths(targets), _lengths(counts)]
        nats, by_log_probs = log_probs.new_empty(B), torch.empty_like(log_probs)
        tensors = (log_probs, *numbers, nats, by_log_probs)
        _call("ctc", ctypes.byref(_Paths(B, T, V, torch.get_num_threads(), *map(_at, tensors))))
        ctx.save_for_backward(by_log_probs)
        return nats

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (by_log_probs,) = ctx.saved_tensors
        return by_log_probs * gradients[0][:, None, None], None, None, None

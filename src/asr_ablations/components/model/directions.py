"""One or two directions, built from any recurrent layer for one direction."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from functools import cache
from typing import Any, TypeVar

import torch
from torch import nn

from asr_ablations.native.operations import Cell, fits, recurrence
from asr_ablations.tools.masks import valid_frames
from asr_ablations.training.contracts import RecurrentFactory
from asr_ablations.training.master_weights import copies_in
from asr_verdicts.errors import choices

Result = TypeVar("Result")
Other = TypeVar("Other")


def call_both(
    first: nn.Module, second: nn.Module, x: torch.Tensor, y: torch.Tensor, lengths: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute first(x, lengths) and second(y, lengths) at the same time, in two CPU threads or two GPU streams.

    Results and gradients are the same as for two calls in turn.
    """
    if x.device.type == "cuda":
        return call_in_two_streams(first, second, x, y, lengths)
    if x.device.type != "cpu" or torch.get_num_threads() == 1:
        return first(x, lengths), second(y, lengths)
    if not torch.is_grad_enabled():
        return _run_at_once(_without_gradients(first, x, lengths), _without_gradients(second, y, lengths))
    weights = [*first.parameters(), *second.parameters()]
    return _Both.apply(first, second, lengths, x, y, *weights)


def call_in_two_streams(
    first: nn.Module, second: nn.Module, x: torch.Tensor, y: torch.Tensor, lengths: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Run the second call in a side stream, because one recurrence, a small product per frame, leaves a GPU idle.

    Autograd runs the backward passes in the same streams and synchronises them. record_stream keeps the allocator from
    reusing memory that one stream has allocated while the other still reads it.
    """
    main, side = torch.cuda.current_stream(x.device), _side_stream(x.device)
    side.wait_stream(main)
    with torch.cuda.stream(side):
        second_output = second(y, lengths)
    for value in (y, *second.parameters()):  # the weights may be copies made for this step
        value.record_stream(side)
    first_output = first(x, lengths)
    main.wait_stream(side)
    second_output.record_stream(main)
    return first_output, second_output


@cache
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


def _without_gradients(module: nn.Module, x: torch.Tensor, lengths: torch.Tensor) -> Callable[[], torch.Tensor]:
    def run() -> torch.Tensor:
        with torch.no_grad():  # gradients are switched off for the caller's thread only
            return module(x, lengths)

    return run


class _Both(torch.autograd.Function):
    """Builds and runs each module's graph in a separate thread; only inputs and outputs join the outer graph."""

    @staticmethod
    def forward(
        ctx: Any,
        first: nn.Module,
        second: nn.Module,
        lengths: torch.Tensor,
        x: torch.Tensor,
        y: torch.Tensor,
        *weights: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        inputs = [value.detach().requires_grad_() for value in (x, y)]
        modules = (first, second)

        def call(i: int) -> Callable[[], torch.Tensor]:
            def run() -> torch.Tensor:
                with torch.enable_grad():
                    return modules[i](inputs[i], lengths)

            return run

        outputs = _run_at_once(call(0), call(1))
        ctx.parts = [
            (output, [value, *module.parameters()])
            for output, value, module in zip(outputs, inputs, modules, strict=True)
        ]
        return tuple(output.detach() for output in outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        def call(i: int) -> Callable[[], tuple[torch.Tensor, ...]]:
            output, inputs = ctx.parts[i]
            return lambda: torch.autograd.grad(output, inputs, gradients[i], allow_unused=True)

        (x, *first), (y, *second) = _run_at_once(call(0), call(1))
        ctx.parts = None  # frees the activations of the inner graphs, as the outer graph would
        return None, None, None, x, y, *first, *second


def _run_at_once(first: Callable[[], Result], second: Callable[[], Other]) -> tuple[Result, Other]:
    """Run the first call in this thread and the second in the helper thread, with one core each."""
    threads = torch.get_num_threads()
    future: Future[Other] = _helper().submit(second)
    torch.set_num_threads(1)
    try:
        result = first()
    finally:
        torch.set_num_threads(threads)
    return result, future.result()


@cache
def _helper() -> ThreadPoolExecutor:
    pool = ThreadPoolExecutor(1, "second-direction")
    pool.submit(_set_one_thread).result()  # before this thread sets another number
    return pool


def _set_one_thread() -> None:
    """Limit torch to one thread within the helper thread.

    Each thread has its own limit, but torch initialises it at first use with the number that any thread set last. On a
    busy machine, which starts this thread late, some runs would get another number and so other last bits.
    """
    torch.set_num_threads(1)
    torch.get_num_threads()  # the first use
    torch.set_num_threads(1)


KINDS = ("forward", "sum", "concat")


class Directions(nn.Module):
    """(x (B, T, D), lengths (B,)) → (B, T, size), with 0 past a length.

    directions: forward, sum (Ambroszczyk2019 §2.4) or concat, which is twice as wide; UsageError for other values. The
    backward layer reads each utterance reversed within its length. That is exact for every valid frame, and avoids
    packing, which on a CPU costs three times as much as the layer.
    """

    def __init__(self, layer: RecurrentFactory, input_size: int, hidden_size: int, *, directions: str) -> None:
        super().__init__()
        if directions not in KINDS:
            raise choices("model.directions", directions, KINDS)
        self.concatenate = directions == "concat"
        self.size = 2 * hidden_size if self.concatenate else hidden_size
        self.forwards = layer(input_size, hidden_size)
        self.backwards = None if directions == "forward" else layer(input_size, hidden_size)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        device = x.device.type
        # under autocast x may be in 16 bits
        if self.training and device == "cpu" and (cells := self._native_cells(wide := x.float())):
            bfloat16 = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
            return recurrence(wide, lengths, cells, concatenate=self.concatenate, bfloat16=bfloat16)
        mixed = autocast_of_recurrences(device)
        if mixed == torch.float16:
            return self._call(x, lengths)
        with torch.autocast(device, enabled=False), copies_in(mixed, self) if mixed else nullcontext():
            return self._call(x.to(next(self.parameters()).dtype), lengths)

    def _native_cells(self, x: torch.Tensor) -> list[Cell]:
        """List the cells of both directions for the native library; empty if it does not support them."""
        parts = [part for part in (self.forwards, self.backwards) if part is not None]
        if not all(hasattr(part, "native_cell") for part in parts):
            return []
        cells: list[Cell] = [part.native_cell() for part in parts]  # type: ignore[operator]  # a method
        return cells if fits(cells, x) else []

    def _call(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        valid = valid_frames(lengths, x.shape[1], x.device)[..., None]
        if self.backwards is None:
            return self.forwards(x, lengths) * valid
        flip = reversal_indices(lengths, x.shape[1], x.device)
        y, reversed_y = call_both(self.forwards, self.backwards, x, flip_frames(x, flip), lengths)
        z = flip_frames(reversed_y, flip)
        return (torch.cat([y, z], dim=-1) if self.concatenate else y + z) * valid


def autocast_of_recurrences(device: str) -> torch.dtype | None:
    """Return the type in which a recurrence runs under the current autocast; None for the type of its weights.

    It is None on a CPU, where 16-bit recurrences are slower. On CUDA, autocast handles float16 itself; under bfloat16
    it would also run cuDNN in float16, although the loss is not scaled.
    """
    on = torch.is_autocast_enabled(device) and device == "cuda"
    return torch.get_autocast_dtype(device) if on else None


def flip_frames(x: torch.Tensor, flip: torch.Tensor) -> torch.Tensor:
    """Reorder the frames of each utterance of x (B, T, D) by the indices flip (B, T), which are self-inverse."""
    if x.requires_grad and torch.is_grad_enabled():  # an exported model has no such function
        return Flip.apply(x, flip)
    return _take_frames(x, flip)


def _take_frames(x: torch.Tensor, flip: torch.Tensor) -> torch.Tensor:
    """Reorder frames as in flip_frames, without its gradient.

    A CPU copies whole rows in an eighth of the time of a gather, which copies single numbers. The result has the same
    memory layout as x, which recurrences leave frame by frame.
    """
    if x.device.type != "cpu":
        return x.gather(1, flip[..., None].expand_as(x))
    (B, T, _), by_frame = x.shape, x.transpose(0, 1)
    utterances = torch.arange(B, device=x.device)[:, None]
    if x.is_contiguous() or not by_frame.is_contiguous():
        return x.flatten(0, 1).index_select(0, (utterances * T + flip).flatten()).view_as(x)
    rows = (flip * B + utterances).T.flatten()
    return by_frame.flatten(0, 1).index_select(0, rows).view_as(by_frame).transpose(0, 1)


class Flip(torch.autograd.Function):
    """Gathers in both passes: torch's gradient of a gather would be summed into zeros, on a GPU by atomics."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, flip: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(flip)
        return _take_frames(x, flip)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        (flip,) = ctx.saved_tensors
        return _take_frames(gradient, flip), None


def reversal_indices(lengths: torch.Tensor, frames: int, device: torch.device) -> torch.Tensor:
    """Compute indices (B, T) that reverse each utterance within its length and leave the padding in place."""
    position = torch.arange(frames, device=device)[None]
    last = lengths.to(device, non_blocking=True)[:, None] - 1
    return torch.where(position <= last, last - position, position)

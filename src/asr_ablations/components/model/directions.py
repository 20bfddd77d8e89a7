"""Unidirectional and bidirectional recurrent layers, built from any unidirectional layer."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import cache
from typing import Any

import torch
from torch import nn

from asr_ablations.native.operations import Cell, recurrence, usable
from asr_ablations.tools.masks import valid_frames
from asr_ablations.training.contracts import RecurrentFactory
from asr_ablations.training.precision import copies_in
from asr_verdicts.errors import choices


def call_in_two_streams(
    first: nn.Module, second: nn.Module, x: torch.Tensor, y: torch.Tensor, lengths: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute first(x, lengths) and second(y, lengths) concurrently on a GPU, the second one in a side stream.

    A single recurrence leaves a GPU mostly idle, because each frame needs only a small matrix product. Autograd runs
    the backward passes in the same streams and synchronises them. record_stream prevents the allocator from reusing
    memory of one stream while the other stream is still reading it.
    """
    main, side = torch.cuda.current_stream(x.device), _side_stream(x.device)
    side.wait_stream(main)
    with torch.cuda.stream(side):
        second_output = second(y, lengths)
    for value in (y, *second.parameters()):  # weights may be temporary copies for this step
        value.record_stream(side)
    first_output = first(x, lengths)
    main.wait_stream(side)
    second_output.record_stream(main)
    return first_output, second_output


@cache
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


def call_in_two_threads(
    first: nn.Module, second: nn.Module, x: torch.Tensor, y: torch.Tensor, lengths: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute first(x, lengths) and second(y, lengths) concurrently, each on one CPU core and without gradients."""
    threads = torch.get_num_threads()
    second_output = _helper().submit(second, y, lengths)
    torch.set_num_threads(1)
    try:
        return first(x, lengths), second_output.result()
    finally:
        torch.set_num_threads(threads)


@cache
def _helper() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "second-direction", _prepare_helper)


def _prepare_helper() -> None:
    torch.set_grad_enabled(False)  # torch has a separate gradient mode in each thread
    torch.set_num_threads(1)
    torch.get_num_threads()  # without this call, torch would later use another thread's setting


KINDS = ("forward", "sum", "concat")


class Directions(nn.Module):
    """Maps x (B, T, D) and lengths (B,) to (B, T, size) with one or two recurrent layers. Padding frames become 0.

    directions: forward, sum (Ambroszczyk2019 §2.4) or concat, which doubles the output size. The backward layer reads
    each utterance reversed within its length. This is exact for valid frames and avoids packed sequences, which take
    three times as long as the layer itself on a CPU. Raises UsageError for other values of `directions`.
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
        # the native library needs float32, but x may have 16 bits under autocast
        if self.training and device == "cpu" and (cells := self._native_cells(wide := x.float())):
            bfloat16 = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
            return recurrence(wide, lengths, cells, concatenate=self.concatenate, bfloat16=bfloat16)
        mixed = autocast_of_recurrences(device)
        if mixed == torch.float16:
            return self._call(x, lengths)
        with torch.autocast(device, enabled=False), copies_in(mixed, self) if mixed else nullcontext():
            return self._call(x.to(next(self.parameters()).dtype), lengths)

    def _native_cells(self, x: torch.Tensor) -> list[Cell]:
        """Return the native cell of each direction, or an empty list if the native library cannot process them or x."""
        parts = [part for part in (self.forwards, self.backwards) if part is not None]
        if not all(hasattr(part, "native_cell") for part in parts):
            return []
        cells: list[Cell] = [part.native_cell() for part in parts]  # type: ignore[operator]  # a method
        return cells if usable(x, *(weight for cell in cells for weight in cell.weights)) else []

    def _call(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        valid = valid_frames(lengths, x.shape[1], x.device)[..., None]
        if self.backwards is None:
            return self.forwards(x, lengths) * valid
        flip = reversal_indices(lengths, x.shape[1], x.device)
        flipped = flip_frames(x, flip)
        if x.device.type == "cuda":
            y, reversed_y = call_in_two_streams(self.forwards, self.backwards, x, flipped, lengths)
        elif x.device.type == "cpu" and torch.get_num_threads() > 1 and not torch.is_grad_enabled():
            y, reversed_y = call_in_two_threads(self.forwards, self.backwards, x, flipped, lengths)
        else:
            y, reversed_y = self.forwards(x, lengths), self.backwards(flipped, lengths)
        z = flip_frames(reversed_y, flip)
        return (torch.cat([y, z], dim=-1) if self.concatenate else y + z) * valid


def autocast_of_recurrences(device: str) -> torch.dtype | None:
    """Return the dtype of recurrent layers under the current autocast, or None for the dtype of their weights.

    The result is None on a CPU, because 16-bit recurrences are slower there. On CUDA, autocast handles float16 itself.
    For bfloat16, it would run cuDNN in float16 although the loss is not scaled, so the caller must convert the weights.
    """
    on = torch.is_autocast_enabled(device) and device == "cuda"
    return torch.get_autocast_dtype(device) if on else None


def flip_frames(x: torch.Tensor, flip: torch.Tensor) -> torch.Tensor:
    """Reorder the frames of x (B, T, D) by self-inverse indices (B, T), such as those of `reversal_indices`."""
    differentiable = x.requires_grad and torch.is_grad_enabled()  # models that use Flip cannot be exported
    return Flip.apply(x, flip) if differentiable else _take_frames(x, flip)


def _take_frames(x: torch.Tensor, flip: torch.Tensor) -> torch.Tensor:
    if x.device.type != "cpu":
        return x.gather(1, flip[..., None].expand_as(x))
    # on a CPU, copying whole rows is eight times as fast as gather, which copies element by element
    B, T, _ = x.shape
    rows = (torch.arange(B, device=x.device)[:, None] * T + flip).flatten()
    return x.flatten(0, 1).index_select(0, rows).view_as(x)


class Flip(torch.autograd.Function):
    """Reorders frames in both passes. torch's gather would need atomic additions in its backward pass on a GPU."""

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

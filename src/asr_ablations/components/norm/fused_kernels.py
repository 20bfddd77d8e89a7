# ruff: noqa: N803  Triton's constants are written in capitals
"""Triton kernels for the four operations of batch.py. They sum in a fixed order, without atomic additions.

A program processes one tile of ROWS × COLUMNS elements at a time. Row r of x is position r % inner in frame
r // inner % frames of utterance r // (inner * frames).
"""

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl

TILE = 2048
"""Number of elements in a tile."""
PROGRAMS = 1024
"""Maximum number of partial sums per channel, enough to occupy all multiprocessors of a GPU."""


@triton.jit
def _locate(lengths, row, column, rows, width, frames, inner):
    """Return a mask of valid rows, a mask of their elements, and the offsets of all elements in x (rows, width)."""
    length = tl.load(lengths + row // (frames * inner), mask=row < rows, other=0)
    valid = (row < rows) & (row // inner % frames < length)
    return valid, valid[:, None] & (column < width)[None, :], row.to(tl.int64)[:, None] * width + column[None, :]


@triton.jit
def _moments(
    x, lengths, counts, means, squares, rows, width, frames, inner, per, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    part = tl.program_id(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    count = 0.0
    mean = tl.full((COLUMNS,), 0.0, tl.float32)
    square = tl.full((COLUMNS,), 0.0, tl.float32)
    for begin in range(part * per, part * per + per, ROWS):
        valid, taken, place = _locate(lengths, begin + tl.arange(0, ROWS), column, rows, width, frames, inner)
        value = tl.load(x + place, mask=taken, other=0.0).to(tl.float32)
        # merge means and squares (Chan, Golub & LeVeque 1983), because subtracting large sums loses precision
        tile_count = tl.sum(valid.to(tl.float32), 0)
        tile_mean = tl.sum(value, 0) / tl.maximum(tile_count, 1.0)
        deviation = tl.where(taken, value - tile_mean[None, :], 0.0)
        both = tl.maximum(count + tile_count, 1.0)
        apart = tile_mean - mean
        square += tl.sum(deviation * deviation, 0) + apart * apart * (count * tile_count / both)
        mean += apart * (tile_count / both)
        count += tile_count
    tl.store(counts + part, count)
    tl.store(means + part * width + column, mean, mask=column < width)
    tl.store(squares + part * width + column, square, mask=column < width)


@triton.jit
def _join(counts, means, squares, result, parts, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < width
    count = 0.0
    mean = tl.full((COLUMNS,), 0.0, tl.float32)
    square = tl.full((COLUMNS,), 0.0, tl.float32)
    for begin in range(0, parts, ROWS):
        part = begin + tl.arange(0, ROWS)
        taken = (part < parts)[:, None] & inside[None, :]
        part_count = tl.load(counts + part, mask=part < parts, other=0.0)
        part_mean = tl.load(means + part[:, None] * width + column[None, :], mask=taken, other=0.0)
        part_square = tl.load(squares + part[:, None] * width + column[None, :], mask=taken, other=0.0)
        tile_count = tl.sum(part_count, 0)
        tile_mean = tl.sum(part_count[:, None] * part_mean, 0) / tl.maximum(tile_count, 1.0)
        deviation = part_mean - tile_mean[None, :]
        both = tl.maximum(count + tile_count, 1.0)
        apart = tile_mean - mean
        square += tl.sum(part_square + part_count[:, None] * deviation * deviation, 0)
        square += apart * apart * (count * tile_count / both)
        mean += apart * (tile_count / both)
        count += tile_count
    tl.store(result + column, mean, mask=inside)
    tl.store(result + width + column, square, mask=inside)


@triton.jit
def _load_channels(mean, variance, weight, bias, column, width, epsilon):
    """Return the mean, 1 / standard deviation, weight and bias (COLUMNS,) of each channel."""
    inside = column < width
    deviation = tl.rsqrt(tl.load(variance + column, mask=inside, other=1.0) + epsilon)
    factor = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    offset = tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)
    return tl.load(mean + column, mask=inside, other=0.0), deviation, factor, offset


@triton.jit
def _apply(
    x,
    lengths,
    mean,
    variance,
    weight,
    bias,
    y,
    rows,
    width,
    frames,
    inner,
    epsilon,
    low,
    high,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < width
    valid, taken, place = _locate(lengths, row, column, rows, width, frames, inner)
    centre, deviation, factor, offset = _load_channels(mean, variance, weight, bias, column, width, epsilon)
    value = tl.load(x + place, mask=taken, other=0.0).to(tl.float32)
    value = (value - centre[None, :]) * (deviation * factor)[None, :] + offset[None, :]
    value = tl.where(value < low, low, tl.where(value > high, high, value))  # NaN stays NaN
    value = tl.where(valid[:, None], value, 0.0)
    tl.store(y + place, value.to(y.dtype.element_ty), mask=(row < rows)[:, None] & inside[None, :])


@triton.jit
def _load_gradient(gradient, x, place, taken, centre, deviation, factor, offset, low, high):
    """Return the normalised x and the gradient of the unclipped output, both (ROWS, COLUMNS)."""
    normalised = tl.load(x + place, mask=taken, other=0.0).to(tl.float32)
    normalised = (normalised - centre[None, :]) * deviation[None, :]
    y = normalised * factor[None, :] + offset[None, :]
    passed = tl.load(gradient + place, mask=taken, other=0.0).to(tl.float32)
    return normalised, tl.where((y < low) | (y > high), 0.0, passed)


@triton.jit
def _gradient_sums(
    gradient,
    x,
    lengths,
    mean,
    variance,
    weight,
    bias,
    sums,
    rows,
    width,
    frames,
    inner,
    epsilon,
    low,
    high,
    per,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    part = tl.program_id(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    centre, deviation, factor, offset = _load_channels(mean, variance, weight, bias, column, width, epsilon)
    alone = tl.full((COLUMNS,), 0.0, tl.float32)
    weighted = tl.full((COLUMNS,), 0.0, tl.float32)
    for begin in range(part * per, part * per + per, ROWS):
        _, taken, place = _locate(lengths, begin + tl.arange(0, ROWS), column, rows, width, frames, inner)
        normalised, passed = _load_gradient(gradient, x, place, taken, centre, deviation, factor, offset, low, high)
        alone += tl.sum(passed, 0)
        weighted += tl.sum(tl.where(taken, passed * normalised, 0.0), 0)
    tl.store(sums + part * 2 * width + column, alone, mask=column < width)
    tl.store(sums + part * 2 * width + width + column, weighted, mask=column < width)


@triton.jit
def _input_gradient(
    gradient,
    x,
    lengths,
    mean,
    variance,
    weight,
    bias,
    means,
    result,
    rows,
    width,
    frames,
    inner,
    epsilon,
    low,
    high,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < width
    valid, taken, place = _locate(lengths, row, column, rows, width, frames, inner)
    centre, deviation, factor, offset = _load_channels(mean, variance, weight, bias, column, width, epsilon)
    normalised, passed = _load_gradient(gradient, x, place, taken, centre, deviation, factor, offset, low, high)
    passed -= tl.load(means + column, mask=inside, other=0.0)[None, :]
    passed -= normalised * tl.load(means + width + column, mask=inside, other=0.0)[None, :]
    value = tl.where(valid[:, None], passed * (deviation * factor)[None, :], 0.0)
    tl.store(result + place, value.to(result.dtype.element_ty), mask=(row < rows)[:, None] & inside[None, :])


def _tile(width: int) -> tuple[int, int]:
    """Return ROWS and COLUMNS of a tile for rows of `width` elements."""
    columns = min(128, max(16, triton.next_power_of_2(width)))
    return TILE // columns, columns


def _parts(rows: int, tile_rows: int) -> tuple[int, int]:
    """Return the number of programs that share a sum, and the number of rows per program, a multiple of `tile_rows`."""
    tiles = triton.cdiv(rows, tile_rows)
    per = triton.cdiv(tiles, PROGRAMS) * tile_rows
    return triton.cdiv(rows, per), per


def moments(x: torch.Tensor, lengths: torch.Tensor, frames: int, inner: int) -> torch.Tensor:
    rows, width = x.shape
    if not rows:
        return x.new_zeros(2, width, dtype=torch.float32)
    tile_rows, columns = _tile(width)
    parts, per = _parts(rows, tile_rows)
    counts, partial = x.new_empty(parts, dtype=torch.float32), x.new_empty(2, parts, width, dtype=torch.float32)
    result, grid = x.new_empty(2, width, dtype=torch.float32), (parts, triton.cdiv(width, columns))
    sizes = {"ROWS": tile_rows, "COLUMNS": columns}
    _moments[grid](x, lengths, counts, *partial, rows, width, frames, inner, per, **sizes)
    _join[(triton.cdiv(width, 16),)](counts, *partial, result, parts, width, ROWS=TILE // 16, COLUMNS=16)
    return result


def gradient_sums(gradient: torch.Tensor, x: torch.Tensor, lengths: torch.Tensor, *values: Any) -> torch.Tensor:
    rows, width = x.shape
    if not rows:
        return x.new_zeros(2, width, dtype=torch.float32)
    tile_rows, columns = _tile(width)
    parts, per = _parts(rows, tile_rows)
    sums, grid = x.new_empty(parts, 2, width, dtype=torch.float32), (parts, triton.cdiv(width, columns))
    tensors, numbers = values[:4], values[4:]
    sizes = {"ROWS": tile_rows, "COLUMNS": columns}
    _gradient_sums[grid](gradient, x, lengths, *tensors, sums, rows, width, *numbers, per, **sizes)
    return sums.sum(0)


def apply(x: torch.Tensor, lengths: torch.Tensor, *values: Any) -> torch.Tensor:
    y, tensors, numbers = torch.empty_like(x), values[:4], values[4:]
    _cover(_apply, x, [x, lengths, *tensors, y], numbers)
    return y


def input_gradient(gradient: torch.Tensor, x: torch.Tensor, lengths: torch.Tensor, *values: Any) -> torch.Tensor:
    result, tensors, means, numbers = torch.empty_like(x), values[:4], values[4].contiguous(), values[5:]
    _cover(_input_gradient, x, [gradient, x, lengths, *tensors, means, result], numbers)
    return result


def _cover(kernel: Any, x: torch.Tensor, tensors: Sequence[torch.Tensor], numbers: Sequence[Any]) -> None:
    """Run one program of the kernel for each tile of x."""
    rows, width = x.shape
    tile_rows, columns = _tile(width)
    grid = triton.cdiv(rows, tile_rows), triton.cdiv(width, columns)
    if rows:
        kernel[grid](*tensors, rows, width, *numbers, ROWS=tile_rows, COLUMNS=columns)


KERNELS = {
    "norm_moments": moments,
    "norm_apply": apply,
    "norm_gradient_sums": gradient_sums,
    "norm_gradient": input_gradient,
}
"""Kernels by operation name."""

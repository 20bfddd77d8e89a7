# ruff: noqa: N803  Triton's constants are in capitals
"""The four operations of fused.py as Triton kernels. Sums have a fixed order, without atomics.

A program processes one tile of ROWS × COLUMNS numbers at a time. Row r is position r % inner of frame
r // inner % frames of utterance r // (inner * frames).
"""

from typing import Any

import torch
import triton
import triton.language as tl

TILE = 2048
"""Numbers in a tile."""
PROGRAMS = 1024
"""The most parts of a sum, enough for the processors of any GPU."""


@triton.jit
def _moments(
    x, lengths, counts, means, squares, rows, frames, inner, width, per, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    part = tl.program_id(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    count = 0.0
    mean = tl.full((COLUMNS,), 0.0, tl.float32)
    square = tl.full((COLUMNS,), 0.0, tl.float32)
    for begin in range(part * per, part * per + per, ROWS):
        row = begin + tl.arange(0, ROWS)
        length = tl.load(lengths + row // (frames * inner), mask=row < rows, other=0)
        valid = (row < rows) & (row // inner % frames < length)
        taken = valid[:, None] & (column < width)[None, :]
        place = row.to(tl.int64)[:, None] * width + column[None, :]
        value = tl.load(x + place, mask=taken, other=0.0).to(tl.float32)
        # the mean of a tile, then both combined (Chan, Golub & LeVeque 1983), without subtracting large numbers
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
def _apply(
    x,
    lengths,
    mean,
    variance,
    weight,
    bias,
    y,
    rows,
    frames,
    inner,
    width,
    epsilon,
    low,
    high,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < width
    length = tl.load(lengths + row // (frames * inner), mask=row < rows, other=0)
    valid = (row < rows) & (row // inner % frames < length)
    place = row.to(tl.int64)[:, None] * width + column[None, :]
    value = tl.load(x + place, mask=valid[:, None] & inside[None, :], other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.load(variance + column, mask=inside, other=1.0) + epsilon)
    scale *= tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    value = (value - tl.load(mean + column, mask=inside, other=0.0)[None, :]) * scale[None, :]
    value += tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)[None, :]
    value = tl.where(value < low, low, tl.where(value > high, high, value))  # NaN stays NaN
    value = tl.where(valid[:, None], value, 0.0)
    tl.store(y + place, value.to(y.dtype.element_ty), mask=(row < rows)[:, None] & inside[None, :])


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
    frames,
    inner,
    width,
    per,
    epsilon,
    low,
    high,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    part = tl.program_id(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < width
    centre = tl.load(mean + column, mask=inside, other=0.0)
    deviation = tl.rsqrt(tl.load(variance + column, mask=inside, other=1.0) + epsilon)
    factor = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    offset = tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)
    alone = tl.full((COLUMNS,), 0.0, tl.float32)
    weighted = tl.full((COLUMNS,), 0.0, tl.float32)
    for begin in range(part * per, part * per + per, ROWS):
        row = begin + tl.arange(0, ROWS)
        length = tl.load(lengths + row // (frames * inner), mask=row < rows, other=0)
        valid = (row < rows) & (row // inner % frames < length)
        taken = valid[:, None] & inside[None, :]
        place = row.to(tl.int64)[:, None] * width + column[None, :]
        normalised = tl.load(x + place, mask=taken, other=0.0).to(tl.float32)
        normalised = (normalised - centre[None, :]) * deviation[None, :]
        y = normalised * factor[None, :] + offset[None, :]
        passed = tl.load(gradient + place, mask=taken, other=0.0).to(tl.float32)
        passed = tl.where((y < low) | (y > high), 0.0, passed)
        alone += tl.sum(passed, 0)
        weighted += tl.sum(tl.where(taken, passed * normalised, 0.0), 0)
    tl.store(sums + part * 2 * width + column, alone, mask=inside)
    tl.store(sums + part * 2 * width + width + column, weighted, mask=inside)


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
    frames,
    inner,
    width,
    epsilon,
    low,
    high,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < width
    length = tl.load(lengths + row // (frames * inner), mask=row < rows, other=0)
    valid = (row < rows) & (row // inner % frames < length)
    taken = valid[:, None] & inside[None, :]
    place = row.to(tl.int64)[:, None] * width + column[None, :]
    deviation = tl.rsqrt(tl.load(variance + column, mask=inside, other=1.0) + epsilon)
    factor = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    normalised = tl.load(x + place, mask=taken, other=0.0).to(tl.float32)
    normalised = (normalised - tl.load(mean + column, mask=inside, other=0.0)[None, :]) * deviation[None, :]
    y = normalised * factor[None, :] + tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)[None, :]
    passed = tl.load(gradient + place, mask=taken, other=0.0).to(tl.float32)
    passed = tl.where((y < low) | (y > high), 0.0, passed)
    passed -= tl.load(means + column, mask=inside, other=0.0)[None, :]
    passed -= normalised * tl.load(means + width + column, mask=inside, other=0.0)[None, :]
    value = tl.where(valid[:, None], passed * (deviation * factor)[None, :], 0.0)
    tl.store(result + place, value.to(result.dtype.element_ty), mask=(row < rows)[:, None] & inside[None, :])


def _tile(width: int) -> tuple[int, int]:
    """Choose ROWS and COLUMNS."""
    columns = min(128, max(16, triton.next_power_of_2(width)))
    return TILE // columns, columns


def _parts(rows: int, tile_rows: int) -> tuple[int, int]:
    """Choose the number of programs of a sum, and the rows of each, a multiple of a tile's."""
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
    _moments[grid](x, lengths, counts, *partial, rows, frames, inner, width, per, **sizes)
    _join[(triton.cdiv(width, 16),)](counts, *partial, result, parts, width, ROWS=TILE // 16, COLUMNS=16)
    return result


def apply(x: torch.Tensor, lengths: torch.Tensor, *values: Any) -> torch.Tensor:
    mean, variance, weight, bias, frames, inner, epsilon, low, high = values
    rows, width = x.shape
    tile_rows, columns = _tile(width)
    y, grid = torch.empty_like(x), (triton.cdiv(rows, tile_rows), triton.cdiv(width, columns))
    if rows:
        sizes = {"ROWS": tile_rows, "COLUMNS": columns}
        tensors = (x, lengths, mean, variance, weight, bias, y)
        _apply[grid](*tensors, rows, frames, inner, width, epsilon, low, high, **sizes)
    return y


def gradient_sums(gradient: torch.Tensor, x: torch.Tensor, lengths: torch.Tensor, *values: Any) -> torch.Tensor:
    mean, variance, weight, bias, frames, inner, epsilon, low, high = values
    rows, width = x.shape
    if not rows:
        return x.new_zeros(2, width, dtype=torch.float32)
    tile_rows, columns = _tile(width)
    parts, per = _parts(rows, tile_rows)
    sums, grid = x.new_empty(parts, 2, width, dtype=torch.float32), (parts, triton.cdiv(width, columns))
    sizes = {"ROWS": tile_rows, "COLUMNS": columns}
    tensors = (gradient, x, lengths, mean, variance, weight, bias, sums)
    _gradient_sums[grid](*tensors, rows, frames, inner, width, per, epsilon, low, high, **sizes)
    return sums.sum(0)


def input_gradient(gradient: torch.Tensor, x: torch.Tensor, lengths: torch.Tensor, *values: Any) -> torch.Tensor:
    mean, variance, weight, bias, means, frames, inner, epsilon, low, high = values
    rows, width = x.shape
    tile_rows, columns = _tile(width)
    result, grid = torch.empty_like(x), (triton.cdiv(rows, tile_rows), triton.cdiv(width, columns))
    if rows:
        sizes = {"ROWS": tile_rows, "COLUMNS": columns}
        tensors = (gradient, x, lengths, mean, variance, weight, bias, means.contiguous(), result)
        _input_gradient[grid](*tensors, rows, frames, inner, width, epsilon, low, high, **sizes)
    return result


KERNELS = {
    "norm_moments": moments,
    "norm_apply": apply,
    "norm_gradient_sums": gradient_sums,
    "norm_gradient": input_gradient,
}
"""Kernels by the names of the operations."""

"""Float32 matrix products on a CPU, computed by oneDNN.

torch would use MKL, which is half as fast on processors not made by Intel (AMD EPYC: 103 against 230 GFLOP/s).
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import library

ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
"""True if torch has the operator that torch.compile uses for linear layers on a CPU."""


def linear(x: torch.Tensor, weights: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """x (M, K) · weights (N, K)ᵀ + bias (N,) → (M, N), all of one type. Without gradient on a CPU."""
    applies = ONEDNN and x.dtype == torch.float32 and x.device.type == "cpu" and x.numel()
    if applies and not torch.compiler.is_exporting():
        result: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, weights, bias, "none", [], "")
        return result
    return torch.nn.functional.linear(x, weights, bias)


@contextmanager
def exact_products() -> Iterator[None]:
    """Within the context, CUDA does not round the inputs of float32 products, whatever `tf32` is set to."""
    matmul, cudnn = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = matmul, cudnn


TOLERANCE = 1e-3
"""Largest accepted difference from the reference. Summation order gives about 1e-6, a wrong kernel about 1."""


def trusted(
    load: Callable[[], Mapping[str, Any]], operators: library.Library, difference: Callable[[], float], otherwise: str
) -> bool:
    """Register the kernels that `load` imports as the operators' CUDA versions, and return whether they can be used.

    `difference` measures their distance from the reference. Without Triton or a compiler the program goes on without
    them, and prints `otherwise`, which names the consequence, with the reason.
    """
    try:
        for name, kernel in load().items():
            operators.impl(name, kernel, "CUDA")
        off = difference()
        reason = "" if off <= TOLERANCE else f"off by {off:.1g}"
    except Exception as error:  # a compiler may raise anything, and training can go on without it
        reason = str(error).partition("\n")[0] or type(error).__name__
    if reason:
        print(f"{otherwise}: {reason}", file=sys.stderr)
    return not reason

"""Matrix products with oneDNN on a CPU and without TF32 rounding on CUDA, and checks of custom CUDA kernels.

On a CPU, torch would use MKL for float32, which is half as fast on processors that Intel did not make (AMD EPYC: 103
instead of 230 GFLOP/s).
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import library

ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
"""Whether torch has the operator that torch.compile uses for linear layers on a CPU."""


def linear(x: torch.Tensor, weights: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Return x (M, K) · weights (N, K)ᵀ + bias (N,), with shape (M, N), all of one type; no gradient on a CPU."""
    applies = ONEDNN and x.dtype == torch.float32 and x.device.type == "cpu" and x.numel()
    if applies and not torch.compiler.is_exporting():
        result: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, weights, bias, "none", [], "")
        return result
    return torch.nn.functional.linear(x, weights, bias)


@contextmanager
def exact_products() -> Iterator[None]:
    """Keep CUDA from rounding the inputs of float32 products to TF32 within the context, whatever `tf32` is set to."""
    matmul, cudnn = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = matmul, cudnn


TOLERANCE = 1e-3
"""Largest accepted difference from the reference. The order of summation gives about 1e-6, a wrong kernel about 1."""


def trusted(
    load: Callable[[], Mapping[str, Any]], operators: library.Library, difference: Callable[[], float], otherwise: str
) -> bool:
    """Register kernels as the CUDA versions of operators, and return whether they can be used.

    load: function that imports the kernels. difference: function that measures their difference from the reference.
    otherwise: message to print, with the reason, if the kernels cannot be used, as when Triton is missing.
    """
    try:
        for name, kernel in load().items():
            operators.impl(name, kernel, "CUDA")
        off = difference()
        reason = "" if off <= TOLERANCE else f"off by {off:.1g}"
    except Exception as error:  # a compiler may raise anything, and training can continue without kernels
        reason = str(error).partition("\n")[0] or type(error).__name__
    if reason:
        print(f"{otherwise}: {reason}", file=sys.stderr)
    return not reason

"""Products in float32 on a CPU, by oneDNN.

torch leaves them to MKL, half as fast on a processor that is not Intel's (AMD EPYC: 103 against 230 GFLOP/s).
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import library

ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
"""True if torch has the operator that its own compiler gives linear layers on a CPU to."""


def linear(x: torch.Tensor, weights: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """(M, K), (N, K), (N,) → x · weightsᵀ + bias (M, N), all of one type. On a CPU it has no gradient."""
    applies = ONEDNN and x.dtype == torch.float32 and x.device.type == "cpu" and x.numel()
    if applies and not torch.compiler.is_exporting():
        result: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, weights, bias, "none", [], "")
        return result
    return torch.nn.functional.linear(x, weights, bias)


def packed(weights: torch.Tensor, rows: int) -> torch.Tensor:
    """Weights (N, K) in an order in memory that `linear` takes a fifth less time with, for x (rows, K) in float32 on a
    CPU. Packing takes as long as five products of 16 rows: for weights that many products need.
    """
    if ONEDNN and weights.dtype == torch.float32 and weights.numel() and rows:
        result: torch.Tensor = torch.ops.mkldnn._reorder_linear_weight(weights, rows)
        return result
    return weights


@contextmanager
def exact_products() -> Iterator[None]:
    """Within the context CUDA rounds no input of a float32 product, whatever tf32 says."""
    matmul, cudnn = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = matmul, cudnn


TOLERANCE = 1e-3
"""Largest difference from the reference. float32 sums in another order differ by 1e-6 or so; a wrong kernel by 1."""


def trusted(
    load: Callable[[], Mapping[str, Any]], operators: library.Library, difference: Callable[[], float], otherwise: str
) -> bool:
    """Put the kernels that `load` imports behind the operators, for CUDA, and return whether they can be used:
    `difference` measures how far they are from the reference.

    A machine without Triton or a compiler goes on without them: `otherwise` says what that means, in a line with the
    reason.
    """
    try:
        for name, kernel in load().items():
            operators.impl(name, kernel, "CUDA")
        off = difference()
        reason = "" if off <= TOLERANCE else f"off by {off:.1g}"
    except Exception as error:  # whatever a compiler may raise: no reason to end a training
        reason = str(error).partition("\n")[0] or type(error).__name__
    if reason:
        print(f"{otherwise}: {reason}", file=sys.stderr)
    return not reason

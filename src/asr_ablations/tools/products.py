"""Products in float32 on a CPU, by oneDNN.

torch leaves them to MKL, which on a processor that is not Intel's takes twice the time (AMD EPYC with AVX-512: 103
against 230 GFLOP/s).
"""

import torch

ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
"""Whether torch has the operator that its own compiler gives linear layers on a CPU to."""


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

"""Batch normalisation over the valid frames of all ranks, as if they were one batch (after Peng et al. 2018, §3.2)."""

from collections.abc import Sequence

import torch
from torch import distributed, nn
from torch.distributed.nn.functional import all_reduce

from asr_ablations.components.norm.batch import BatchNorm


def batch_synchronised(frame: Sequence[int], *, momentum: float, epsilon: float) -> nn.Module:
    """Build batch norm that adds up statistics over all ranks in the forward pass, and gradients in the backward pass.

    All ranks must call the module equally often, because a missing call would block the other ranks forever.
    """
    return BatchNorm(frame, momentum=momentum, epsilon=epsilon, reduce=add_over_ranks)


def add_over_ranks(sums: torch.Tensor) -> torch.Tensor:
    """Add up a vector (N,) over all ranks, with gradients from all ranks. A single process returns it unchanged."""
    return all_reduce(sums) if distributed.is_initialized() else sums

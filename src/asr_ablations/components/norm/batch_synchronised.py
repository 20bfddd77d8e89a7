"""Batch normalisation over the valid frames of all ranks, as if the batch lay on one (after Peng et al. 2018, §3.2)."""

from collections.abc import Sequence

import torch
from torch import distributed, nn
from torch.distributed.nn.functional import all_reduce

from asr_ablations.components.norm.batch import BatchNorm


def batch_synchronised(frame: Sequence[int], *, momentum: float, epsilon: float) -> nn.Module:
    """Two all-reduces of a vector forwards and two backwards: every rank must call the module equally often."""
    return BatchNorm(frame, momentum=momentum, epsilon=epsilon, total=over_ranks)


def over_ranks(sums: torch.Tensor) -> torch.Tensor:
    """Sums over all ranks, with gradients from all of them; one process alone has its own."""
    return all_reduce(sums) if distributed.is_initialized() else sums

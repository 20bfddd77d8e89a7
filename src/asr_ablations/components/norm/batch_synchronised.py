"""Batch normalisation over the valid frames of all ranks, as if all of the batch were on one (after Peng et al. 2018,
§3.2).
"""

from collections.abc import Sequence

import torch
from torch import distributed, nn
from torch.distributed.nn.functional import all_reduce

from asr_ablations.components.norm.batch import BatchNorm


def batch_synchronised(frame: Sequence[int], *, momentum: float, epsilon: float) -> nn.Module:
    """Batch norm with two all-reduces of a vector in the forward and two in the backward pass.

    Every rank must call the module equally often, or the others wait for ever.
    """
    return BatchNorm(frame, momentum=momentum, epsilon=epsilon, reduce=over_ranks)


def over_ranks(sums: torch.Tensor) -> torch.Tensor:
    """Sums (N,) over all ranks, with gradients from all of them; a process alone keeps its own."""
    return all_reduce(sums) if distributed.is_initialized() else sums

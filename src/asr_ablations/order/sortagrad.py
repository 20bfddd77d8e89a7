"""SortaGrad: the first epoch by increasing length, the others bucketed (Amodei et al. 2016; papers/003 §2.6)."""

import numpy as np

from asr_ablations.order.bucketed import bucketed
from asr_ablations.order.sorted import sorted_


def sortagrad(
    durations: np.ndarray, batch_size: int, epoch: int, generator: np.random.Generator, *, buckets: int
) -> list[np.ndarray]:
    """Batches of indices: sorted in epoch 0, bucketed from epoch 1 on."""
    if epoch == 0:
        return sorted_(durations, batch_size, epoch, generator)
    return bucketed(durations, batch_size, epoch, generator, buckets=buckets)

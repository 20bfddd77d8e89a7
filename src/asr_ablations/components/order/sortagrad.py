"""SortaGrad: only the first epoch is sorted by duration (Amodei et al. 2016; Ambroszczyk2019 §2.6)."""

import numpy as np

from asr_ablations.components.order.bucketed import bucketed, by_bucket
from asr_ablations.data.batch import BatchSize


def sortagrad(
    durations: np.ndarray, batch_size: BatchSize, epoch: int, generator: np.random.Generator, *, buckets: int
) -> list[np.ndarray]:
    """Form batches of utterance indices, sorted by duration in epoch 0, and as in order=bucketed in later epochs.

    Every epoch has the same number of batches.
    """
    if epoch == 0:
        return by_bucket(durations, batch_size, buckets, lambda bucket: bucket)
    return bucketed(durations, batch_size, epoch, generator, buckets=buckets)

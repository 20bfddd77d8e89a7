"""Utterances by increasing duration, every epoch the same."""

import numpy as np

from asr_ablations.data.batch_size import BatchSize


def sorted_(
    durations: np.ndarray, batch_size: BatchSize, epoch: int, generator: np.random.Generator
) -> list[np.ndarray]:
    """Batches of indices, the shortest utterances first."""
    order = np.argsort(durations, kind="stable")
    batches, begin = [], 0
    while begin < len(order):
        reach = min(begin + batch_size.count(float(durations[order[begin]])), len(order))
        # as many as fit beside the longest within reach; among sorted utterances that is hardly one fewer
        end = begin + batch_size.count(float(durations[order[reach - 1]]))
        batches.append(order[begin:end])
        begin = end
    return batches

"""Utterances by increasing duration, in the same order in every epoch."""

import numpy as np

from asr_ablations.data.batch import BatchSize


def sorted_(
    durations: np.ndarray, batch_size: BatchSize, epoch: int, generator: np.random.Generator
) -> list[np.ndarray]:
    """Form batches of utterance indices, with the shortest utterances first."""
    order = np.argsort(durations, kind="stable")
    batches, begin = [], 0
    while begin < len(order):
        limit = min(begin + batch_size.count(float(durations[order[begin]])), len(order))
        # all are padded to the longest utterance, so fewer may fit, although rarely in sorted order
        end = begin + batch_size.count(float(durations[order[limit - 1]]))
        batches.append(order[begin:end])
        begin = end
    return batches

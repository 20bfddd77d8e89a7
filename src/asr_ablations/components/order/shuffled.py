"""Utterances in random order, regardless of their duration."""

import numpy as np

from asr_ablations.data.batch import BatchSize


def shuffled(
    durations: np.ndarray, batch_size: BatchSize, epoch: int, generator: np.random.Generator
) -> list[np.ndarray]:
    """Form batches of utterance indices in random order."""
    order = generator.permutation(len(durations))
    return np.split(order, batch_size.cut(durations[order])) if len(order) else []

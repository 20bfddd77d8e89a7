"""Utterances at random, whatever their duration."""

import numpy as np


def shuffled(durations: np.ndarray, batch_size: int, epoch: int, generator: np.random.Generator) -> list[np.ndarray]:
    """Batches of indices in random order."""
    order = generator.permutation(len(durations))
    return [order[i : i + batch_size] for i in range(0, len(order), batch_size)]

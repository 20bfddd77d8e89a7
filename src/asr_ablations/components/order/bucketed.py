"""Batches of utterances with similar durations, in random order. They need little padding."""

from collections.abc import Callable

import numpy as np

from asr_ablations.data.batch import BatchSize
from asr_ablations.tools.checks import whole


def bucketed(
    durations: np.ndarray, batch_size: BatchSize, epoch: int, generator: np.random.Generator, *, buckets: int
) -> list[np.ndarray]:
    """Form batches of utterance indices from shuffled buckets of similar durations, then shuffle the batches."""
    whole("order.buckets", buckets, 1)
    batches = by_bucket(durations, batch_size, buckets, generator.permutation)
    return [batches[i] for i in generator.permutation(len(batches))]


def by_bucket(
    durations: np.ndarray, batch_size: BatchSize, buckets: int, shuffle: Callable[[np.ndarray], np.ndarray]
) -> list[np.ndarray]:
    """Form batches of utterance indices, bucket by bucket from the shortest to the longest utterances.

    The utterances are divided by duration into up to `buckets` buckets of equal size, and each bucket is shuffled.
    Utterances that do not fill a batch are added to the next bucket.
    """
    by_duration = np.argsort(durations, kind="stable")
    batches: list[np.ndarray] = []
    rest = np.empty(0, dtype=np.int64)
    fullest = batch_size.count(float(durations.max(initial=0.0)))
    for bucket in np.array_split(by_duration, max(1, min(buckets, len(durations) // fullest))):
        members = np.concatenate([rest, shuffle(bucket)])
        count = batch_size.count(float(durations[bucket].max(initial=0.0)))
        whole = len(members) // count
        batches += list(members[: whole * count].reshape(whole, count))
        rest = members[whole * count :]
    if len(rest):
        batches.append(rest)
    return batches

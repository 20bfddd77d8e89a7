"""Utterances of similar duration together: little padding, batches in random order."""

import numpy as np


def bucketed(
    durations: np.ndarray, batch_size: int, epoch: int, generator: np.random.Generator, *, buckets: int
) -> list[np.ndarray]:
    """Batches of indices. The utterances are cut into `buckets` of equal count by duration and shuffled within each;
    what is left of a bucket after its full batches goes into the next one.
    """
    by_duration = np.argsort(durations, kind="stable")
    batches: list[np.ndarray] = []
    rest = np.empty(0, dtype=np.int64)
    for bucket in np.array_split(by_duration, max(1, min(buckets, len(durations) // batch_size))):
        members = np.concatenate([rest, generator.permutation(bucket)])
        whole = len(members) // batch_size
        batches += list(members[: whole * batch_size].reshape(whole, batch_size))
        rest = members[whole * batch_size :]
    if len(rest):
        batches.append(rest)
    return [batches[i] for i in generator.permutation(len(batches))]

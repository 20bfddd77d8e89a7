"""The most probable CTC path through given labels."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def letter_frames(log_probs: NDArray[np.floating], labels: Sequence[int]) -> list[NDArray[np.intp]]:
    """List the frames of each label on the most probable CTC path that reads as the labels (Graves et al. 2006).

    log_probs: (T, V) in nats, blank at index 0. Raises ValueError if there are too few frames for the labels.

    torchaudio's forced_align (2.11) does not find the best path if steps of one and two states are equally good: it
    stays in its state. This is common with confident models.
    """
    states = np.zeros(2 * len(labels) + 1, dtype=int)  # blank, label, blank, label, … blank
    states[1::2] = labels
    jumps = np.zeros(len(states), dtype=bool)  # from a label to a different label, past the blank between them
    jumps[2:] = (states[2:] != 0) & (states[2:] != states[:-2])
    score = np.full(len(states), -np.inf)
    score[:2] = log_probs[0, states[:2]]
    steps = np.zeros((len(log_probs), len(states)), dtype=np.int8)  # 0, 1 or 2 states, on the best path to each state
    for t in range(1, len(log_probs)):
        step_one, step_two = np.full_like(score, -np.inf), np.full_like(score, -np.inf)
        step_one[1:], step_two[2:] = score[:-1], np.where(jumps[2:], score[:-2], -np.inf)
        paths = np.stack([score, step_one, step_two])
        steps[t] = paths.argmax(axis=0)
        score = paths.max(axis=0) + log_probs[t, states]
    path = np.empty(len(log_probs), dtype=int)
    path[-1] = len(states) - 2 + int(score[-1] > score[-2])
    if not np.isfinite(score[path[-1]]):
        raise ValueError(f"{len(log_probs)} frames are too few for {len(labels)} labels")
    for t in range(len(log_probs) - 1, 0, -1):
        path[t - 1] = path[t] - steps[t, path[t]]
    return [np.flatnonzero(path == 2 * i + 1) for i in range(len(labels))]

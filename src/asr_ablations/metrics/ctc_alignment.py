"""The best CTC path through given labels."""

import numpy as np


def letter_frames(log_probs: np.ndarray, labels: list[int]) -> list[np.ndarray]:
    """The frames of each label on the most probable CTC path of (T, V) that reads as the labels (Graves et al. 2006).

    Not torchaudio's forced_align: where going on by one state and by two are equally good, which a sure model makes
    common, it stays (2.11), and its path is not the best. Raises ValueError where there are too few frames.
    """
    states = np.zeros(2 * len(labels) + 1, dtype=int)  # blank, label, blank, label, … blank
    states[1::2] = labels
    jumps = np.zeros(len(states), dtype=bool)  # from a label to another one, past the blank between
    jumps[2:] = (states[2:] != 0) & (states[2:] != states[:-2])
    score = np.full(len(states), -np.inf)
    score[:2] = log_probs[0, states[:2]]
    came = np.zeros((len(log_probs), len(states)), dtype=np.int8)
    for t in range(1, len(log_probs)):
        one, two = np.full_like(score, -np.inf), np.full_like(score, -np.inf)
        one[1:], two[2:] = score[:-1], np.where(jumps[2:], score[:-2], -np.inf)
        ways = np.stack([score, one, two])
        came[t] = ways.argmax(axis=0)
        score = ways.max(axis=0) + log_probs[t, states]
    path = np.empty(len(log_probs), dtype=int)
    path[-1] = len(states) - 2 + int(score[-1] > score[-2])
    if not np.isfinite(score[path[-1]]):
        raise ValueError(f"{len(log_probs)} frames are too few for {len(labels)} labels")
    for t in range(len(log_probs) - 1, 0, -1):
        path[t - 1] = path[t] - came[t, path[t]]
    return [np.flatnonzero(path == 2 * i + 1) for i in range(len(labels))]

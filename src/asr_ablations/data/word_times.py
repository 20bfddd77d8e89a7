"""Find the times of decoded words on the most probable CTC path through the model's outputs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from asr_ablations.data.alphabet import Alphabet


@dataclass(frozen=True)
class Word:
    """A decoded word with its start and end in seconds. confidence: geometric mean of its labels' probabilities."""

    word: str
    start: float
    end: float
    confidence: float


def align(log_probs: torch.Tensor, text: str, alphabet: Alphabet, step: float, offset: float) -> list[Word]:
    """Return the words of a decoded text with their times, from the most probable CTC path of this text.

    log_probs: model outputs in nats, (T, V); step: seconds per frame; offset: seconds added to all times. A word ends
    with the frame of its last label, which often precedes the end of its sound.
    """
    if not text:
        return []
    scores = log_probs.detach().cpu().double().numpy()
    labels = alphabet.encode(text)
    frames_of = label_frames(scores, labels)
    words = []
    for word, places in alphabet.words(text):
        frames = np.concatenate([frames_of[place] for place in places])
        label_scores = np.concatenate([scores[frames_of[place], labels[place]] for place in places])
        times = offset + step * frames[0], offset + step * (frames[-1] + 1)
        words.append(Word(word, float(times[0]), float(times[1]), float(np.exp(label_scores.mean()).clip(max=1))))
    return words


def label_frames(log_probs: NDArray[np.floating], labels: Sequence[int]) -> list[NDArray[np.intp]]:
    """Return the frames of each label on the most probable CTC path (Graves et al. 2006).

    log_probs: model outputs in nats, (T, V), with the blank at index 0. Raises ValueError if there are too few frames.
    This replaces forced_align of torchaudio 2.11, which misses the best path if steps by one and by two states are
    equally good, as is common with confident models.
    """
    states = np.zeros(2 * len(labels) + 1, dtype=int)  # blank, label, blank, …, label, blank
    states[1::2] = labels
    jumps = np.zeros(len(states), dtype=bool)  # whether a state can be reached from the previous label without a blank
    jumps[2:] = (states[2:] != 0) & (states[2:] != states[:-2])
    score = np.full(len(states), -np.inf)
    score[:2] = log_probs[0, states[:2]]
    steps = np.zeros(
        (len(log_probs), len(states)), dtype=np.int8
    )  # size of the last step on the best path to each state
    for t in range(1, len(log_probs)):
        step_one, step_two = np.full_like(score, -np.inf), np.full_like(score, -np.inf)
        step_one[1:], step_two[2:] = score[:-1], np.where(jumps[2:], score[:-2], -np.inf)
        ways = np.stack([score, step_one, step_two])
        steps[t] = ways.argmax(axis=0)
        score = ways.max(axis=0) + log_probs[t, states]
    path = np.empty(len(log_probs), dtype=int)
    path[-1] = len(states) - 2 + int(score[-1] > score[-2])
    if not np.isfinite(score[path[-1]]):
        raise ValueError(f"{len(log_probs)} frames are too few for {len(labels)} labels")
    for t in range(len(log_probs) - 1, 0, -1):
        path[t - 1] = path[t] - steps[t, path[t]]
    return [np.flatnonzero(path == 2 * i + 1) for i in range(len(labels))]

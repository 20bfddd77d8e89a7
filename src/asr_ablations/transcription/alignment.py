"""When each word of a text was spoken, and how sure the model is of it."""

from dataclasses import dataclass

import numpy as np
import torch

from asr_ablations.data.alphabet import Alphabet


@dataclass(frozen=True)
class Word:
    """start, end: seconds; confidence: 0 to 1, the geometric mean of the probabilities of its letters, in the frames
    in which the best CTC path puts them. It tells how sure the acoustic model is, whatever a language model said.
    """

    word: str
    start: float
    end: float
    confidence: float


def align(log_probs: torch.Tensor, text: str, alphabet: Alphabet, step: float, offset: float) -> list[Word]:
    """The words of a decoded text on the most probable path through log_probs (T, V), in nats.

    step: seconds a frame; offset: added to every time. A word ends with the frame of its last letter, which CTC often
    puts before the sound of it is over.
    """
    if not text:
        return []
    scores = log_probs.detach().cpu().double().numpy()
    labels = alphabet.encode(text)
    frames_of = letter_frames(scores, labels)
    words, position = [], 0
    for word in text.split(" "):
        letters = range(position, position + len(alphabet.encode(word)))
        position = letters.stop + 1  # past the space
        frames = np.concatenate([frames_of[letter] for letter in letters])
        sure = np.concatenate([scores[frames_of[letter], labels[letter]] for letter in letters])
        times = offset + step * frames[0], offset + step * (frames[-1] + 1)
        words.append(Word(word, float(times[0]), float(times[1]), float(np.exp(sure.mean()).clip(max=1))))
    return words


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

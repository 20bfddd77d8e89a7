"""When the words of a decoded text were spoken, by the best path through the model's output."""

from dataclasses import dataclass

import numpy as np
import torch

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.metrics.ctc_alignment import letter_frames


@dataclass(frozen=True)
class Word:
    """A word with start and end in seconds and its confidence from 0 to 1: the geometric mean of the probabilities of
    its letters, in the frames to which the best CTC path aligns them. It is the confidence of the acoustic model alone,
    without a language model.
    """

    word: str
    start: float
    end: float
    confidence: float


def align(log_probs: torch.Tensor, text: str, alphabet: Alphabet, step: float, offset: float) -> list[Word]:
    """Return the words of a decoded text on its most probable path through log_probs (T, V), in nats.

    step: seconds per frame; offset: added to every time. A word ends with the frame of its last letter, which CTC often
    puts before the end of its sound.
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
        letter_scores = np.concatenate([scores[frames_of[letter], labels[letter]] for letter in letters])
        times = offset + step * frames[0], offset + step * (frames[-1] + 1)
        words.append(Word(word, float(times[0]), float(times[1]), float(np.exp(letter_scores.mean()).clip(max=1))))
    return words

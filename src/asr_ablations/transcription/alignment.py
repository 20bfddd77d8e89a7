"""When each word of a text was spoken, and how sure the model is of it."""

from dataclasses import dataclass

import torch
from torchaudio.functional import forced_align, merge_tokens

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
    """The words of a decoded text on the most probable path through log_probs (T, V), in nats (Graves et al. 2006).

    step: seconds a frame; offset: added to every time. A word ends with the frame of its last letter, which CTC often
    puts before the sound of it is over.
    """
    if not text:
        return []
    targets = torch.tensor([alphabet.encode(text)], dtype=torch.int32)
    path, scores = forced_align(log_probs[None].float().cpu(), targets, blank=0)
    spans = iter(merge_tokens(path[0], scores[0], blank=0))
    words = []
    for word in text.split(" "):
        letters = [next(spans) for _ in alphabet.encode(word)]
        next(spans, None)  # the space
        frames = torch.cat([scores[0, letter.start : letter.end] for letter in letters])
        start, end = (offset + step * frame for frame in (letters[0].start, letters[-1].end))
        words.append(Word(word, start, end, float(frames.mean().exp().clamp(max=1))))
    return words

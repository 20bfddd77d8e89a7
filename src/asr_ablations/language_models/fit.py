"""The fit of a language model to a set: perplexity, and the share of unknown words."""

import math
from collections.abc import Iterable, Sequence
from typing import TypedDict

import kenlm

from asr_ablations.language_models.text import units


class Fit(TypedDict):
    """Numbers of sentences and words, and the fit to them; oov_rate: the share of words that the model lacks."""

    sentences: int
    words: int
    oov_rate: float
    perplexity: float
    perplexity_without_oov: float
    bits_per_word: float


def fit(ngrams: kenlm.Model, sentences: Iterable[Sequence[str]], unit: str) -> Fit:
    """Measure the fit to sentences of words: the perplexity over words and sentence ends, as KenLM's `query` counts it,
    with and without unknown words; the share of unknown words; the entropy in bits per word.
    """
    total = known = 0.0
    words = unknown = ends = 0
    for sentence in sentences:
        ends += 1
        for score, _, oov in ngrams.full_scores(" ".join(units(sentence, unit))):
            total += score
            known += 0.0 if oov else score
            words, unknown = words + 1, unknown + oov
    counted = max(1, words)  # sentence ends included
    return {
        "sentences": ends,
        "words": words - ends,
        "oov_rate": unknown / max(1, words - ends),
        "perplexity": 10 ** (-total / counted),
        "perplexity_without_oov": 10 ** (-known / max(1, words - unknown)),
        "bits_per_word": -total * math.log2(10) / max(1, words - ends),
    }

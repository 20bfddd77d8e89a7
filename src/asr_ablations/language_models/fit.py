"""How well a language model fits a set: perplexity and words it does not know."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from asr_ablations.language_models.text import units


def fit(ngrams: Any, sentences: Iterable[Sequence[str]], unit: str) -> dict[str, float]:
    """Perplexity over words and sentence ends as KenLM's `query` counts it, with and without those of unknown words;
    their share of all words; entropy in bits a word.
    """
    total = known = 0.0
    words = unknown = ends = 0
    for sentence in sentences:
        ends += 1
        for score, _, oov in ngrams.full_scores(" ".join(units(sentence, unit))):
            total += score
            known += 0.0 if oov else score
            words, unknown = words + 1, unknown + oov
    counted = max(1, words)  # the ends of sentences are among them
    return {
        "sentences": ends,
        "words": words - ends,
        "oov_rate": unknown / max(1, words - ends),
        "perplexity": 10 ** (-total / counted),
        "perplexity_without_oov": 10 ** (-known / max(1, words - unknown)),
        "bits_per_word": -total * math.log2(10) / max(1, words - ends),
    }

"""Interpolated modified Kneser-Ney smoothing for corpora that fit into memory, as lmplz computes it (Chen and Goodman
1999, §3; Heafield et al. 2013). lmplz is faster, works on disk, and gives the same numbers.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from asr_ablations.language_models.arpa import Entry

Gram = tuple[str, ...]
BEGIN, END, UNKNOWN = "<s>", "</s>", "<unk>"
FALLBACK = (0.0, 0.5, 1.0, 1.5)
"""lmplz's discounts for counts of 0, 1, 2, 3 and more if a corpus is too small to estimate them (--discount_fallback).
"""


def estimate(sentences: Iterable[Sequence[str]], order: int, prune: Sequence[int]) -> list[list[Entry]]:
    """Return the entries of an ARPA file, one list per order. order: 2 or more; prune: for each order, the count up to
    which n-grams are left out; the first is 0.
    """
    raw = _count(sentences, order)
    adjusted = [_adjust(raw[n], raw[n + 1]) for n in range(order - 1)] + [dict(raw[-1])]
    adjusted[0].pop((BEGIN,), None)
    kept = [{gram for gram in adjusted[n] if n == 0 or raw[n][gram] > prune[n]} for n in range(order)]
    numbers = {word: i for i, word in enumerate(dict.fromkeys([BEGIN, END, *(gram[0] for gram in raw[0])]))}
    probabilities: dict[Gram, float] = {}
    backoffs: dict[Gram, float] = {}
    for n in range(order):
        discounts = _discounts(_counts_of_counts(adjusted[n], raw[n], numbers))
        _weigh(adjusted[n], kept[n], discounts, probabilities, backoffs)
    return [_entries(n, kept[n], probabilities, backoffs, last=n == order - 1) for n in range(order)]


def _count(sentences: Iterable[Sequence[str]], order: int) -> list[Counter[Gram]]:
    """Return how often each n-gram occurs in the sentences, one counter per order."""
    counts: list[Counter[Gram]] = [Counter() for _ in range(order)]
    for sentence in sentences:
        padded = (BEGIN, *sentence, END)
        for n in range(order):
            counts[n].update(padded[i : i + n + 1] for i in range(len(padded) - n))
    return counts


def _adjust(raw: Counter[Gram], longer: Counter[Gram]) -> dict[Gram, int]:
    """Return how many different words precede each n-gram, or how often it occurs if it begins a sentence."""
    preceding = Counter(gram[1:] for gram in longer)
    return {gram: count if gram[0] == BEGIN else preceding[gram] for gram, count in raw.items()}


def _counts_of_counts(adjusted: dict[Gram, int], raw: Counter[Gram], numbers: dict[str, int]) -> Counter[int]:
    """Return how many n-grams have each count. lmplz uses the raw count for the last n-gram in its order, by the number
    of the last word, then of the word before it and so on; in a small corpus that changes the discounts.
    """
    counted = Counter(adjusted.values())
    last = max(adjusted, key=lambda gram: [numbers[word] for word in reversed(gram)])
    counted.subtract([adjusted[last]])
    counted.update([raw[last]])
    return counted


def _discounts(counts_of_counts: Counter[int]) -> Sequence[float]:
    """Return what is subtracted from counts of 0, 1, 2, 3 and more (Chen and Goodman, equation 26)."""
    t1, t2, t3, t4 = (counts_of_counts[k] for k in (1, 2, 3, 4))
    if not (t1 and t2 and t3):
        return FALLBACK
    y = t1 / (t1 + 2 * t2)
    discounts = (0.0, 1 - 2 * y * t2 / t1, 2 - 3 * y * t3 / t2, 3 - 4 * y * t4 / t3)
    return discounts if all(0 <= discounts[k] <= k for k in (1, 2, 3)) else FALLBACK


def _weigh(
    counts: dict[Gram, int],
    kept: set[Gram],
    discounts: Sequence[float],
    probabilities: dict[Gram, float],
    backoffs: dict[Gram, float],
) -> None:
    """Add the probabilities of one order, interpolated with the order below, and the back-off weights of its contexts.
    A pruned n-gram gives all of its count to the back-off.
    """
    totals: dict[Gram, int] = defaultdict(int)
    freed: dict[Gram, float] = defaultdict(float)
    for gram, count in counts.items():
        totals[gram[:-1]] += count
        freed[gram[:-1]] += discounts[min(count, 3)] if gram in kept else count
    for context, total in totals.items():
        backoffs[context] = freed[context] / total
    if () in totals:  # unigrams: all words, the unknown word included, share the rest equally
        share = backoffs.pop(()) / (len(counts) + 1)
        probabilities[UNKNOWN,] = share
    for gram in kept:
        context, count = gram[:-1], counts[gram]
        lower = backoffs[context] * probabilities[gram[1:]] if context else share
        probabilities[gram] = (count - discounts[min(count, 3)]) / totals[context] + lower


def _entries(
    n: int, kept: set[Gram], probabilities: dict[Gram, float], backoffs: dict[Gram, float], last: bool
) -> list[Entry]:
    """Return the sorted entries of the n-grams of n + 1 words, in log10. last: they have no back-off weights."""

    def entry(gram: Gram) -> Entry:
        backoff = None if last else math.log10(backoffs.get(gram, 1.0)) + 0.0
        return gram, math.log10(probabilities[gram]), backoff

    special: list[Entry] = []
    if n == 0:  # the start of a sentence is given, never predicted
        special = [entry((UNKNOWN,)), ((BEGIN,), 0.0, math.log10(backoffs.get((BEGIN,), 1.0)))]
    return special + [entry(gram) for gram in sorted(kept)]

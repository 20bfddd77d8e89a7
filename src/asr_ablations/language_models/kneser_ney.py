"""Modified Kneser-Ney smoothing with interpolation, for corpora that fit into memory, as lmplz does it (Chen and
Goodman 1999, §3; Heafield et al. 2013). lmplz is the faster one, needs no memory, and gives the same numbers.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from asr_ablations.language_models.arpa import Entry

Gram = tuple[str, ...]
BEGIN, END, UNKNOWN = "<s>", "</s>", "<unk>"
FALLBACK = (0.0, 0.5, 1.0, 1.5)
"""lmplz's discounts for counts of 0, 1, 2, 3 and more where a corpus is too small to tell (--discount_fallback)."""


def estimate(sentences: Iterable[Sequence[str]], order: int, prune: Sequence[int]) -> list[list[Entry]]:
    """Entries of an ARPA file, one list an order from 2 on. prune: n-grams seen at most so often are left out, a number
    an order, the first 0.
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
    """How often each n-gram stands in the sentences, one count an order."""
    counts: list[Counter[Gram]] = [Counter() for _ in range(order)]
    for sentence in sentences:
        padded = (BEGIN, *sentence, END)
        for n in range(order):
            counts[n].update(padded[i : i + n + 1] for i in range(len(padded) - n))
    return counts


def _adjust(raw: Counter[Gram], longer: Counter[Gram]) -> dict[Gram, int]:
    """Before how many different words an n-gram stands; where it begins a sentence, how often."""
    before = Counter(gram[1:] for gram in longer)
    return {gram: count if gram[0] == BEGIN else before[gram] for gram, count in raw.items()}


def _counts_of_counts(adjusted: dict[Gram, int], raw: Counter[Gram], numbers: dict[str, int]) -> Counter[int]:
    """How many n-grams have each count. lmplz takes the last n-gram that it comes by, in the order of its last word's
    number, then of the one before and so on, at its raw count; of a small corpus that moves the discounts.
    """
    counted = Counter(adjusted.values())
    last = max(adjusted, key=lambda gram: [numbers[word] for word in reversed(gram)])
    counted.subtract([adjusted[last]])
    counted.update([raw[last]])
    return counted


def _discounts(counts_of_counts: Counter[int]) -> Sequence[float]:
    """What is taken from counts of 0, 1, 2, 3 and more (Chen and Goodman, equation 26)."""
    t1, t2, t3, t4 = (counts_of_counts[k] for k in (1, 2, 3, 4))
    if not (t1 and t2 and t3):
        return FALLBACK
    y = t1 / (t1 + 2 * t2)
    found = (0.0, 1 - 2 * y * t2 / t1, 2 - 3 * y * t3 / t2, 3 - 4 * y * t4 / t3)
    return found if all(0 <= found[k] <= k for k in (1, 2, 3)) else FALLBACK


def _weigh(
    counts: dict[Gram, int],
    kept: set[Gram],
    discounts: Sequence[float],
    probabilities: dict[Gram, float],
    backoffs: dict[Gram, float],
) -> None:
    """Add the probabilities of one order, interpolated with the order below, and the back-off weights of its contexts.
    What is pruned gives all of its count to the back-off.
    """
    totals: dict[Gram, int] = defaultdict(int)
    freed: dict[Gram, float] = defaultdict(float)
    for gram, count in counts.items():
        totals[gram[:-1]] += count
        freed[gram[:-1]] += discounts[min(count, 3)] if gram in kept else count
    for context, total in totals.items():
        backoffs[context] = freed[context] / total
    if () in totals:  # unigrams: the rest is shared by all words, the unknown one among them
        share = backoffs.pop(()) / (len(counts) + 1)
        probabilities[UNKNOWN,] = share
    for gram in kept:
        context, count = gram[:-1], counts[gram]
        lower = backoffs[context] * probabilities[gram[1:]] if context else share
        probabilities[gram] = (count - discounts[min(count, 3)]) / totals[context] + lower


def _entries(
    n: int, kept: set[Gram], probabilities: dict[Gram, float], backoffs: dict[Gram, float], last: bool
) -> list[Entry]:
    def entry(gram: Gram) -> Entry:
        backoff = None if last else math.log10(backoffs.get(gram, 1.0)) + 0.0
        return gram, math.log10(probabilities[gram]), backoff

    special: list[Entry] = []
    if n == 0:  # the start of a sentence is given, never predicted
        special = [entry((UNKNOWN,)), ((BEGIN,), 0.0, math.log10(backoffs.get((BEGIN,), 1.0)))]
    return special + [entry(gram) for gram in sorted(kept)]

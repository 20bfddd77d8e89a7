"""CTC decoding as its definition says (Graves et al. 2006; Hannun et al. 2014), for small cases."""

import itertools
from collections import defaultdict
from collections.abc import Callable

import numpy as np

NEVER = float("-inf")


def collapse(path: tuple[int, ...], characters: str, separation: str = "") -> str:
    """Repeats merged, blanks (0) dropped, then separations; one space between words, none at the ends."""
    merged = [symbol for symbol, _ in itertools.groupby(path)]
    return " ".join("".join(characters[s - 1] for s in merged if s).replace(separation, "").split())


def exhaustive(row: np.ndarray, characters: str, separation: str = "") -> dict[str, float]:
    """log P of every text, in nats, summed over all V**T paths of (T, V) log-probabilities."""
    found: dict[str, float] = defaultdict(lambda: NEVER)
    for path in itertools.product(range(row.shape[1]), repeat=len(row)):
        p = float(sum(row[t, symbol] for t, symbol in enumerate(path)))
        text = collapse(path, characters, separation)
        found[text] = float(np.logaddexp(found[text], p))
    return found


def prefix_search(row: np.ndarray, characters: str, width: int) -> dict[str, float]:
    """log P of the texts whose prefixes were among the `width` best after every frame.

    A beam is (label sequence, last symbol of the alignment): plain, and without the usual split into two numbers.
    """
    beams = {((), 0): 0.0}
    for frame in row:
        after: dict[tuple[tuple[int, ...], int], float] = defaultdict(lambda: NEVER)
        for (labels, last), p in beams.items():
            for symbol, q in enumerate(frame):
                longer = labels if symbol in (0, last) else (*labels, symbol)
                after[longer, symbol] = np.logaddexp(after[longer, symbol], p + q)
        totals: dict[str, float] = defaultdict(lambda: NEVER)
        for (labels, _), p in after.items():
            totals[_text(labels, characters)] = np.logaddexp(totals[_text(labels, characters)], p)
        kept = set(sorted(totals, key=lambda text: -totals[text])[:width])
        beams = {key: p for key, p in after.items() if _text(key[0], characters) in kept}
    found: dict[str, float] = defaultdict(lambda: NEVER)
    for (labels, _), p in beams.items():
        text = " ".join(_text(labels, characters).split())
        found[text] = float(np.logaddexp(found[text], p))
    return found


def _text(labels: tuple[int, ...], characters: str) -> str:
    """A trailing space still tells whether a word has ended."""
    text = "".join(characters[label - 1] for label in labels)
    return " ".join(text.split()) + (" " if text.strip() and text.endswith(" ") else "")


def best(found: dict[str, float], extra: Callable[[str], float] = lambda text: 0.0) -> str:
    return max(found, key=lambda text: found[text] + extra(text))

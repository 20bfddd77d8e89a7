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


def best(found: dict[str, float], extra: Callable[[str], float] = lambda text: 0.0) -> str:
    return max(found, key=lambda text: found[text] + extra(text))

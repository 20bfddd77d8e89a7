"""How many words of a test set are wrong, by how often the training set has them (Ambroszczyk2019 §2.2)."""

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from asr_verdicts.arms import Arm
from asr_verdicts.record import Record
from asr_verdicts.statistics.mapsswe import error_places

MOST = (0, 2, 9)
"""The most occurrences in training of the words of each band but the last."""
BANDS = ("never", "once or twice", "3 to 9 times", "more often")


@dataclass(frozen=True)
class WordFrequencies:
    """An arm on a set. words: of the references, by BANDS, the mean over the runs; wrong: the share of them, a
    fraction, that an alignment with the fewest errors leaves wrong or missing, nan without words.
    """

    arm: str
    set: str
    words: list[float]
    wrong: list[float]


def word_frequencies(arms: Sequence[Arm], sets: Sequence[str]) -> list[WordFrequencies]:
    """A row for each arm and set whose runs recorded how often training has their words; empty where training has all
    words of all sets three times or more, as the built-in corpus of 300 words.
    """
    rows = [row for name in sets for arm in arms if (row := _row(arm, name)) is not None]
    return rows if any(row.words[0] or row.words[1] for row in rows) else []


def _row(arm: Arm, name: str) -> WordFrequencies | None:
    counted = [counts for run in arm.runs if (counts := _counts(run, name)) is not None]
    if not counted or len(counted) < len(arm.runs):
        return None
    words, wrong = np.sum(counted, axis=0)
    shares = np.divide(wrong, words, out=np.full(len(BANDS), np.nan), where=words > 0)
    return WordFrequencies(arm.name, name, (words / len(counted)).tolist(), shares.tolist())


def _counts(run: Record, name: str) -> np.ndarray | None:
    """Words and wrong words of a run on a set (2, bands); None where it is not known how often training has them."""
    rows = [row for row in run.utterances if row["set"] == name]
    known = run.data.training_counts
    if not rows or known is None:
        return None
    bands = {word: bisect.bisect_left(MOST, count) for word, count in known.items()}
    counts = np.zeros((2, len(BANDS)))
    for row in rows:
        words = row["reference"].split()
        if not bands.keys() >= set(words):
            return None
        for word in words:
            counts[0, bands[word]] += 1
        for place in error_places(row["reference"], row["hypothesis"]):
            if place % 2:  # a word of the reference; an insertion has an even place
                counts[1, bands[words[place // 2]]] += 1
    return counts

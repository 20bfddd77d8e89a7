"""Wrong words in a test set, by the frequency of words in training (Ambroszczyk2019 §2.2)."""

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from asr_verdicts.arms import Arm
from asr_verdicts.record import Record
from asr_verdicts.statistics.mapsswe import error_places

MOST = (0, 2, 9)
"""Maximum occurrences in training for the words of each band except the last."""
BANDS = ("never", "once or twice", "3 to 9 times", "more often")


@dataclass(frozen=True)
class WordFrequencies:
    """An arm on a set. words: number of reference words in each of BANDS, mean over runs. wrong: the fraction of these
    that is wrong or missing in an alignment with the fewest errors; nan without words.
    """

    arm: str
    set: str
    words: list[float]
    wrong: list[float]


def word_frequencies(arms: Sequence[Arm], sets: Sequence[str]) -> list[WordFrequencies]:
    """Return a row per arm and set if its runs recorded the words' frequencies in training. Empty if training has all
    words at least three times, as in the built-in corpus with 300 words.
    """
    rows = [row for name in sets for arm in arms if (row := _build_row(arm, name)) is not None]
    return rows if any(row.words[0] or row.words[1] for row in rows) else []


def _build_row(arm: Arm, name: str) -> WordFrequencies | None:
    counted = [counts for run in arm.runs if (counts := _count_words(run, name)) is not None]
    if not counted or len(counted) < len(arm.runs):
        return None
    words, wrong = np.sum(counted, axis=0)
    shares = np.divide(wrong, words, out=np.full(len(BANDS), np.nan), where=words > 0)
    return WordFrequencies(arm.name, name, (words / len(counted)).tolist(), shares.tolist())


def _count_words(run: Record, name: str) -> np.ndarray | None:
    """Return words and wrong words of a run on a set (2, bands); None if training frequencies are unknown."""
    rows = [row for row in run.utterances if row["set"] == name]
    training_counts = run.data.training_counts
    if not rows or training_counts is None:
        return None
    bands = {word: bisect.bisect_left(MOST, count) for word, count in training_counts.items()}
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

"""The matched pairs sentence-segment word error test (MAPSSWE) of NIST's sc_stats."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rapidfuzz.distance import Levenshtein
from scipy import stats

BUFFER = 2
"""Words that all systems have right, in a row, between two segments; sc_stats's own default."""

Places = list[int]
"""Errors of one utterance by place: 2i + 1 a reference word i that is wrong or missing, 2i an insertion before it."""


@dataclass(frozen=True)
class MatchedPairs:
    """Over segments: mean and standard deviation of the difference in errors, Z, two-sided p of the normal."""

    segments: int
    mean: float
    deviation: float
    z: float
    p: float


def error_places(reference: str, hypothesis: str) -> Places:
    """Where the errors of an alignment with the fewest of them lie."""
    if reference == hypothesis:
        return []
    edits = Levenshtein.editops(reference.split(), hypothesis.split())
    return [2 * edit.src_pos + (edit.tag != "insert") for edit in edits]


def segment_differences(arm: Sequence[Places], baseline: Sequence[Places]) -> list[float]:
    """Errors of the arm less those of the baseline in each segment of one utterance, means over the runs of each.

    A segment is a stretch of errors of any run; BUFFER words that every run has right part two of them. With one run
    each it is NIST's segmentation (Gillick & Cox 1989; Pallett et al. 1990); with several the runs share it, so that
    an utterance does not count once a seed.
    """
    events = [(place, 1 / len(arm)) for run in arm for place in run]
    events += [(place, -1 / len(baseline)) for run in baseline for place in run]
    differences: list[float] = []
    last = None
    for place, weight in sorted(events):
        right_between = 0 if last is None else place // 2 - (last + 1) // 2
        if last is None or right_between >= BUFFER:
            differences.append(0.0)
        differences[-1] += weight
        last = place
    return differences


def matched_pairs(differences: Sequence[float]) -> MatchedPairs:
    """The test on the differences of independent segments. Without any spread nothing can be told, and Z is 0, as in
    sc_stats.
    """
    count = len(differences)
    if count < 2:
        return MatchedPairs(count, float(np.sum(differences)), 0.0, 0.0, 1.0)
    mean, deviation = float(np.mean(differences)), float(np.std(differences, ddof=1))
    z = mean / (deviation / np.sqrt(count)) if deviation > 1e-12 else 0.0
    return MatchedPairs(count, mean, deviation, float(z), float(2 * stats.norm.sf(abs(z))))

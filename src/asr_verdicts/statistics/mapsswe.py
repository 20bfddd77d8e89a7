"""MAPSSWE, the matched pairs sentence-segment word error test of NIST's sc_stats."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rapidfuzz.distance import Levenshtein

from asr_verdicts.statistics.distributions import normal_above

BUFFER = 2  # number of consecutive words that all systems have right between two segments; the default of sc_stats

# places of an utterance's errors: 2i + 1 for a wrong or missing reference word i, 2i for an insertion before it
Places = list[int]


@dataclass(frozen=True)
class MatchedPairs:
    """The result of the test: mean and standard deviation of the differences per segment, Z, and two-sided p."""

    segments: int
    mean: float
    deviation: float
    z: float
    p: float


def error_places(reference: str, hypothesis: str) -> Places:
    """Return the places of the errors in an alignment with the fewest errors."""
    if reference == hypothesis:
        return []
    edits = Levenshtein.editops(reference.split(), hypothesis.split())
    return [2 * edit.src_pos + (edit.tag != "insert") for edit in edits]


def segment_differences(arm: Sequence[Places], baseline: Sequence[Places]) -> list[float]:
    """Return the mean errors of the arm's runs minus those of the baseline, for each segment of an utterance.

    A segment is a stretch with errors of any run. Two segments are separated by at least BUFFER words that every run
    has right. With one run per arm this is NIST's segmentation (Gillick & Cox 1989; Pallett et al. 1990). Several runs
    share their segments, so that an utterance is not counted once per seed.
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
    """Test the differences of independent segments. If they do not vary, Z is 0, as in sc_stats."""
    count = len(differences)
    if count < 2:
        return MatchedPairs(count, float(np.sum(differences)), 0.0, 0.0, 1.0)
    mean, deviation = float(np.mean(differences)), float(np.std(differences, ddof=1))
    z = mean / (deviation / np.sqrt(count)) if deviation > 1e-12 else 0.0
    return MatchedPairs(count, mean, deviation, float(z), float(2 * normal_above(abs(z))))

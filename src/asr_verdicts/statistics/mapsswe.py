"""MAPSSWE, the matched-pairs sentence-segment word error test of NIST's sc_stats."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rapidfuzz.distance import Levenshtein

from asr_verdicts.statistics.distributions import normal_above

BUFFER = 2  # minimum number of words between segments, all recognised correctly by every run; the default of sc_stats

# positions of an utterance's errors: 2i + 1 for a wrong or missing reference word i, 2i for an insertion before word i
Places = list[int]


@dataclass(frozen=True)
class MatchedPairs:
    """The result of MAPSSWE: mean and standard deviation of the differences per segment, Z, and two-sided p-value."""

    segments: int
    mean: float
    deviation: float
    z: float
    p: float


def error_places(reference: str, hypothesis: str) -> Places:
    """Return the positions of the errors in an alignment with the fewest errors."""
    if reference == hypothesis:
        return []
    edits = Levenshtein.editops(reference.split(), hypothesis.split())
    return [2 * edit.src_pos + (edit.tag != "insert") for edit in edits]


def segment_differences(arm: Sequence[Places], baseline: Sequence[Places]) -> list[float]:
    """Return, for each segment of an utterance, the arm's mean errors per run minus the baseline's.

    A segment is a stretch of words in which any run makes errors. Between segments, every run recognises at least
    BUFFER words correctly. With one run per arm, this is NIST's segmentation (Gillick & Cox 1989; Pallett et al. 1990).
    Several runs share the same segments, because an utterance must not count once per seed.
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
    """Test whether the mean difference per segment is 0. If the differences do not vary, Z is 0, as in sc_stats."""
    count = len(differences)
    if count < 2:
        return MatchedPairs(count, float(np.sum(differences)), 0.0, 0.0, 1.0)
    mean, deviation = float(np.mean(differences)), float(np.std(differences, ddof=1))
    z = mean / (deviation / np.sqrt(count)) if deviation > 1e-12 else 0.0
    return MatchedPairs(count, mean, deviation, float(z), float(2 * normal_above(abs(z))))

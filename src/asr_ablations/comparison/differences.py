"""Every arm against the baseline, with a verdict in words."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asr_ablations.comparison.result import ALPHA, Arm, Difference
from asr_ablations.comparison.verdict import verdict
from asr_ablations.runs.record import RunRecord
from asr_ablations.statistics.difference import MeasuredDifference, error_difference, rate_difference
from asr_ablations.statistics.mapsswe import error_places, matched_pairs, segment_differences
from asr_ablations.statistics.seeds import holm, pooled_variance

ERRORS = {
    "wer": ("words", "substitutions", "deletions", "insertions"),
    "cer": ("characters", "character_substitutions", "character_deletions", "character_insertions"),
}


@dataclass(frozen=True)
class _SetErrors:
    """One arm on one set: ids with references, (utterances,) totals and speakers, (run, utterance) errors."""

    utterances: list[tuple[str, str]]
    speakers: NDArray[np.str_]
    totals: NDArray[np.float64]
    errors: NDArray[np.float64]
    hypotheses: list[list[str]]


def differences(
    arms: Sequence[Arm], baseline: Arm, sets: Sequence[str], metric: str
) -> tuple[list[Difference], list[str]]:
    """All arms but the baseline on all sets, and warnings on what could not be compared.

    The verdicts of one comparison are one family: they are corrected together, over arms and sets.
    """
    found, warnings = [], []
    others = [arm for arm in arms if arm is not baseline]
    for name in sets:
        column = []
        reference = _read(baseline, name, metric)
        pooled = _pooled(arms, name, metric, reference)
        for arm in others:
            own = _read(arm, name, metric)
            if own is not None and reference is not None and own.utterances != reference.utterances:
                warnings.append(f"{name}: {arm.name} was tested on other utterances than {baseline.name}: not compared")
            elif (made := _difference(arm, baseline, own, reference, name, metric, pooled)) is None:
                warnings.append(f"{name}: {arm.name} or {baseline.name} has no result there: not compared")
            else:
                column.append(made)
        for made, p in zip(column, _holm([one.p_pairs for one, _ in column]), strict=True):
            found.append((replace(made[0], p_pairs_holm=p), made[1]))
    return _judged(found, baseline.name), warnings


def _holm(ps: Sequence[float]) -> list[float]:
    return list(ps) if any(map(math.isnan, ps)) else holm(ps)


def _pooled(arms: Sequence[Arm], name: str, metric: str, errors: _SetErrors | None) -> tuple[float, int]:
    """The variance of seeds within all arms on a set, and its degrees of freedom."""
    grain = 0.0 if errors is None else 1 / max(1.0, float(errors.totals.sum()))
    return pooled_variance([_rates(arm, name, metric).tolist() for arm in arms], grain)


def _judged(found: Sequence[tuple[Difference, MeasuredDifference]], baseline: str) -> list[Difference]:
    tested = [one.p for one, _ in found if one.p is not None]
    corrected = iter(holm(tested))
    pooled = iter(holm([one.p_pooled for one, _ in found if one.p_pooled is not None]))
    judged = []
    for one, measured in found:
        p = None if one.p is None else next(corrected)
        least = measured.detectable(ALPHA / len(tested)) if tested else None
        sensitivity = None if one.p_pooled is None else next(pooled)
        judged.append(replace(one, p_holm=p, p_pooled=sensitivity, detectable=least))
    return [replace(one, verdict=verdict(one, baseline, len(tested), ALPHA)) for one in judged]


def _difference(
    arm: Arm,
    baseline: Arm,
    own: _SetErrors | None,
    reference: _SetErrors | None,
    name: str,
    metric: str,
    pooled: tuple[float, int],
) -> tuple[Difference, MeasuredDifference] | None:
    rates, base = _rates(arm, name, metric), _rates(baseline, name, metric)
    if not len(rates) or not len(base):
        return None
    if own is None or reference is None:
        measured, p_pairs = rate_difference(rates, base, math.inf, pooled=pooled), math.nan
        low = high = math.nan
    else:
        measured = error_difference(own.errors, reference.errors, own.totals, own.speakers, pooled)
        p_pairs = _pairs(own, reference, metric)
        assert measured.speakers is not None
        low, high = measured.speakers.low, measured.speakers.high
    made = Difference(
        arm=arm.name, set=name, metric=metric, baseline_mean=float(base.mean()), arm_mean=float(rates.mean()),
        difference=measured.difference, low=low, high=high, p_pairs=p_pairs, p_pairs_holm=p_pairs,
        p_seeds=measured.p_seeds, detectable=None, verdict="", p=measured.p, half_width=measured.half_width,
        p_pooled=measured.p_pooled, seeds=(len(rates), len(base)),
    )  # fmt: skip
    return made, measured


def _pairs(own: _SetErrors, reference: _SetErrors, metric: str) -> float:
    """p of MAPSSWE for words; for characters the pairs are whole utterances."""
    if metric == "cer":
        return matched_pairs((own.errors.mean(axis=0) - reference.errors.mean(axis=0)).tolist()).p
    segments: list[float] = []
    for index, (_, text) in enumerate(own.utterances):
        ours = [error_places(text, hypotheses[index]) for hypotheses in own.hypotheses]
        theirs = [error_places(text, hypotheses[index]) for hypotheses in reference.hypotheses]
        segments += segment_differences(ours, theirs)
    return matched_pairs(segments).p


def _rates(arm: Arm, name: str, metric: str) -> NDArray[np.float64]:
    rates = [run.summary.get("sets", {}).get(name, {}).get(metric) for run in arm.runs]
    return np.array([rate for rate in rates if rate is not None], dtype=float)


def _read(arm: Arm, name: str, metric: str) -> _SetErrors | None:
    """None where a run of the arm has no utterances of the set, or other ones than the arm's first run."""
    total, *kinds = ERRORS[metric]
    runs = [_of_set(run, name) for run in arm.runs]
    first = runs[0]
    utterances = [(row["id"], row["reference"]) for row in first]
    if not first or any([(row["id"], row["reference"]) for row in rows] != utterances for rows in runs[1:]):
        return None
    return _SetErrors(
        utterances=utterances,
        speakers=np.array([row["speaker"] for row in first]),
        totals=np.array([row[total] for row in first], dtype=float),
        errors=np.array([[sum(int(row[kind]) for kind in kinds) for row in rows] for rows in runs], dtype=float),
        hypotheses=[[row["hypothesis"] for row in rows] for rows in runs],
    )


def _of_set(run: RunRecord, name: str) -> list[dict[str, Any]]:
    return sorted((row for row in run.utterances if row["set"] == name), key=lambda row: str(row["id"]))

"""Every arm against the baseline on every test set, corrected for their number."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from asr_ablations.comparison.metrics import METRICS
from asr_ablations.comparison.result import ALPHA, Arm, Contrast
from asr_ablations.comparison.table import final_value
from asr_ablations.metrics.error_counts import recorded_errors
from asr_ablations.runs.record import RunRecord
from asr_ablations.statistics.difference import PooledVariance, error_difference, rate_difference
from asr_ablations.statistics.mapsswe import error_places, matched_pairs, segment_differences
from asr_ablations.statistics.seeds import detectable, holm, pooled_variance
from asr_ablations.tools.files import Json


@dataclass(frozen=True)
class _SetErrors:
    """The errors of an arm on a test set.

    utterances: (id, reference) of each; speakers, totals: (utterances,), totals in words or characters; errors: (runs,
    utterances); hypotheses: of each run.
    """

    utterances: list[tuple[str, str]]
    speakers: NDArray[np.str_]
    totals: NDArray[np.float64]
    errors: NDArray[np.float64]
    hypotheses: list[list[str]]


def contrasts(arms: Sequence[Arm], baseline: Arm, sets: Sequence[str], metric: str) -> tuple[list[Contrast], list[str]]:
    """All arms but the baseline on all sets, and warnings about those that could not be compared.

    The contrasts of a comparison are one family: they are corrected together, over arms and sets.
    """
    measured, warnings = [], []
    for name in sets:
        of_set, reasons = _measure_set(arms, baseline, name, metric)
        measured += _correct_pairs(of_set)
        warnings += reasons
    return _correct(measured), warnings


def _measure_set(arms: Sequence[Arm], baseline: Arm, name: str, metric: str) -> tuple[list[Contrast], list[str]]:
    """The contrasts on a test set, not corrected yet, and why others are missing."""
    measured, reasons = [], []
    reference = _set_errors(baseline, name, metric)
    pooled = _pooled(arms, name, metric, reference)
    for arm in (arm for arm in arms if arm is not baseline):
        own = _set_errors(arm, name, metric)
        if own is not None and reference is not None and own.utterances != reference.utterances:
            reasons.append(f"{name}: {arm.name} was tested on other utterances than {baseline.name}: not compared")
        elif not len(_rates(arm, name, metric)) or not len(_rates(baseline, name, metric)):
            reasons.append(f"{name}: {arm.name} or {baseline.name} has no result on this set: not compared")
        else:
            measured.append(_measure(arm, baseline, own, reference, name, metric, pooled))
    return measured, reasons


def _measure(
    arm: Arm,
    baseline: Arm,
    own: _SetErrors | None,
    reference: _SetErrors | None,
    name: str,
    metric: str,
    pooled: PooledVariance,
) -> Contrast:
    rates, base = _rates(arm, name, metric), _rates(baseline, name, metric)
    if own is None or reference is None:
        measured, p_pairs = rate_difference(rates, base, math.inf, pooled=pooled), math.nan
    else:
        measured = error_difference(own.errors, reference.errors, own.totals, own.speakers, pooled)
        p_pairs = _pairs(own, reference, metric)
    return Contrast(
        arm=arm.name,
        baseline=baseline.name,
        set=name,
        metric=metric,
        arm_mean=float(rates.mean()),
        baseline_mean=float(base.mean()),
        seeds=(len(rates), len(base)),
        difference=measured.difference,
        speakers=measured.speakers,
        interval=measured.interval,
        p_pairs=p_pairs,
        p_pairs_holm=p_pairs,
        p_seeds=measured.p_seeds,
        p=measured.p,
        p_pooled=measured.p_pooled,
    )


def _correct_pairs(measured: Sequence[Contrast]) -> list[Contrast]:
    """Holm's correction of the matched pairs over the arms of a set; none where a p is nan."""
    ps = [contrast.p_pairs for contrast in measured]
    corrected = ps if any(map(math.isnan, ps)) else holm(ps)
    return [replace(contrast, p_pairs_holm=p) for contrast, p in zip(measured, corrected, strict=True)]


def _correct(measured: Sequence[Contrast]) -> list[Contrast]:
    """Holm's correction over all contrasts that have a p; what is detectable is held to the level of the strictest."""
    ps = [contrast.p for contrast in measured if contrast.p is not None]
    corrected = iter(holm(ps))
    pooled = iter(holm([contrast.p_pooled for contrast in measured if contrast.p_pooled is not None]))
    return [
        replace(
            contrast,
            p_holm=None if contrast.p is None else next(corrected),
            p_pooled=None if contrast.p_pooled is None else next(pooled),
            detectable=_detectable(contrast, len(ps)),
            family=len(ps),
        )
        for contrast in measured
    ]


def _detectable(contrast: Contrast, family: int) -> float | None:
    if contrast.interval is None:
        return None
    return detectable(contrast.interval.standard_error, contrast.interval.degrees, ALPHA / family)


def _pooled(arms: Sequence[Arm], name: str, metric: str, errors: _SetErrors | None) -> PooledVariance:
    """The variance of seeds within all arms on a set, and its degrees of freedom."""
    grain = 0.0 if errors is None else 1 / max(1.0, float(errors.totals.sum()))
    return pooled_variance([_rates(arm, name, metric).tolist() for arm in arms], grain)


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
    """The rate of every seed that has it: (seeds,)."""
    rates = [final_value(run, name, metric) for run in arm.runs]
    return np.array([rate for rate in rates if rate is not None], dtype=float)


def _set_errors(arm: Arm, name: str, metric: str) -> _SetErrors | None:
    """None where the metric is not of utterances, or where a run of the arm has no utterances of the set, or not the
    same as the arm's first run.
    """
    if not METRICS[metric].is_rate:
        return None
    runs = [_rows_of_set(run, name) for run in arm.runs]
    first = runs[0]
    utterances = [(row["id"], row["reference"]) for row in first]
    if not first or any([(row["id"], row["reference"]) for row in rows] != utterances for rows in runs[1:]):
        return None
    errors = [[recorded_errors(row, metric) for row in rows] for rows in runs]
    return _SetErrors(
        utterances=utterances,
        speakers=np.array([row["speaker"] for row in first]),
        totals=np.array([utterance.total for utterance in errors[0]], dtype=float),
        errors=np.array([[utterance.count for utterance in run] for run in errors], dtype=float),
        hypotheses=[[row["hypothesis"] for row in rows] for rows in runs],
    )


def _rows_of_set(run: RunRecord, name: str) -> list[Json]:
    return sorted((row for row in run.utterances if row["set"] == name), key=lambda row: str(row["id"]))

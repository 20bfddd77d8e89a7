"""What a search tried: the validation WER of its runs by each hyperparameter (Ambroszczyk2019 §2.9)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from asr_ablations.comparison.arm import Arm
from asr_ablations.runs.launches import logarithmic
from asr_ablations.runs.record import RunRecord

OBJECTIVE = "best_validation_wer"
"""The figure of a run's summary that a search minimises."""


@dataclass(frozen=True)
class Hyperparameter:
    """values: of each run, numbers where all of them are, else as text; rates: the best validation WERs of the runs;
    best: the place of the lowest in both. logarithmic: whether the search drew it so.
    """

    key: str
    values: list[float] | list[str]
    rates: list[float]
    best: int
    logarithmic: bool


def hyperparameters(arms: Sequence[Arm], factor: Sequence[str]) -> list[Hyperparameter]:
    """The keys of the factor in which the runs that a search proposed differ; empty where there are not two runs.

    A run that diverged has no rate and is left out.
    """
    tried = [(arm, run) for arm in arms for run in arm.runs if run.searched and run.summary.get(OBJECTIVE) is not None]
    if len(tried) < 2:
        return []
    rates = [float(run.summary[OBJECTIVE]) for _, run in tried]
    drawn = frozenset().union(*(logarithmic(run.folder.parent) for _, run in tried))
    return [
        Hyperparameter(key, _numbers(texts), rates, rates.index(min(rates)), key in drawn)
        for key in factor
        if len(set(texts := [arm.levels.get(key, "") for arm, _ in tried])) > 1
    ]


def is_search(arms: Sequence[Arm]) -> bool:
    """Whether a search proposed all runs, several of them: there is nothing that was started to confirm one."""
    results = [run for arm in arms for run in arm.results]
    return len(results) > 1 and all(run.searched for run in results)


def ranked(arms: Sequence[Arm]) -> list[tuple[Arm, RunRecord]]:
    """The runs that a search proposed with their arms, in the order of what it minimises; those that diverged last."""
    tried = [(arm, run) for arm in arms for run in arm.results if run.searched]
    return sorted(tried, key=lambda one: one[1].summary.get(OBJECTIVE, math.inf))


def _numbers(texts: list[str]) -> list[float] | list[str]:
    try:
        return [float(text) for text in texts]
    except ValueError:
        return texts

"""One arm against itself: its seeds split at random into two, which real verdicts must not call different too often."""

from collections.abc import Sequence
from math import sqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from asr_ablations.comparison.seed_noise import planned_looks
from asr_ablations.runs.records import load
from asr_verdicts.design import Options, assign
from asr_verdicts.errors import UsageError
from asr_verdicts.samples import measure_set
from asr_verdicts.statistics.alpha_spending import GroupSequential
from asr_verdicts.statistics.estimate import contrast_estimate
from asr_verdicts.statistics.procedures import ANYTIME, FixedLength, Procedure
from asr_verdicts.statistics.sample import Sample
from tests.campaign.part import Context, Report

NAME = "same"
DESCRIPTION = "an arm's real seeds, split at random into two: how often they are called different (--runs <folder>)"
Runs = NDArray[np.intp]
SPLITS = 1000
ALPHA = 0.05
ALLOWED = 1.0
"""Points above 5 %: Welch's and Satterthwaite's degrees of freedom are approximations."""
FEWEST = 6
"""Runs: three on each side, the fewest that a sweep declares."""


def run(context: Context) -> Report:
    """Three ways to look at each split: at all runs of both halves, at planned looks, and whenever one likes."""
    report = context.report("test set", "verdict", "runs a half", "splits", "called different %", "standard error")
    if context.runs is None:
        report.rows.append(["not run: it needs the folder of an arm with many seeds, as of -cn seeds", *[""] * 5])
        report.count("left out")
        return report
    for name, sample in samples(context.runs).items():
        half = len(sample.rates) // 2
        generator = np.random.default_rng((context.seed, 0))
        found = dict.fromkeys(ways(half), 0)
        splits = 0
        for _ in context.while_time(range(SPLITS), SPLITS):
            drawn, splits = generator.permutation(len(sample.rates)), splits + 1
            for way, looks in ways(half).items():
                found[way] += called_different(sample, drawn[:half], drawn[half : 2 * half], looks)
        for way, count in found.items():
            add(report, name, way, half, 100 * count / splits, splits)
    return report


def samples(folder: Path) -> dict[str, Sample]:
    """The WER of the one arm in a folder by test set. Raises UsageError where there are several, or too few runs."""
    arms = assign(load([folder]), Options()).layout.arms
    runs = len(arms[0].results) if len(arms) == 1 else 0
    if runs < FEWEST:
        raise UsageError(
            f"--runs {folder}: {len(arms)} arms, {runs} runs: expected one arm with {FEWEST} seeds or more"
        )
    sets = sorted({row["set"] for run in arms[0].runs for row in run.utterances})
    return {name: measure_set(arms, arms[0], name, "wer").samples[arms[0].name] for name in sets}


def ways(half: int) -> dict[str, Sequence[tuple[int, Procedure]]]:
    """The looks of each kind of verdict: runs of a half, and the test at that look."""
    looks = planned_looks(half)
    return {
        "at all runs": [(half, FixedLength())],
        f"at looks of {', '.join(map(str, looks))}": [
            (runs, GroupSequential(looks, number, ALPHA)) for number, runs in enumerate(looks)
        ],
        "after every run": [(runs, ANYTIME) for runs in range(3, half + 1)],
    }


def called_different(sample: Sample, one: Runs, other: Runs, looks: Sequence[tuple[int, Procedure]]) -> bool:
    """Whether the two halves, runs by their numbers, are called different at any of the looks."""
    for runs, procedure in looks:
        estimate = contrast_estimate([(1.0, sample.of_runs(one[:runs])), (-1.0, sample.of_runs(other[:runs]))])
        assert estimate is not None
        if procedure.p(estimate) < ALPHA:
            return True
    return False


def add(report: Report, name: str, way: str, half: int, percent: float, splits: int) -> None:
    """A row, and a failure above what is allowed by more than three standard errors. Splits of the same runs are not
    independent: the error is a lower bound.
    """
    error = 100 * sqrt(ALPHA * (1 - ALPHA) / splits)
    report.rows.append([name, way, str(half), str(splits), f"{percent:.1f}", f"{error:.1f}"])
    report.count("splits", splits)
    if percent > 100 * ALPHA + ALLOWED + 3 * error:
        report.failures.append(f"{name}, {way}: {percent:.1f} % called different, expected at most {100 * ALPHA:g}")

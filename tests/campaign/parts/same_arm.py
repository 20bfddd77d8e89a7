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
        counts, splits = dict.fromkeys(ways(half), 0), 0
        for _ in context.while_time(range(SPLITS), SPLITS):
            drawn, splits = generator.permutation(len(sample.rates)), splits + 1
            for way, looks in ways(half).items():
                counts[way] += called_different(sample, drawn[:half], drawn[half : 2 * half], looks)
        report.count("splits", splits * len(counts))
        error = 100 * sqrt(ALPHA * (1 - ALPHA) / splits)  # a lower bound: splits of the same runs are not independent
        for way, count in counts.items():
            percent = 100 * count / splits
            report.rows.append([name, way, str(half), str(splits), f"{percent:.1f}", f"{error:.1f}"])
            if percent > 100 * ALPHA + ALLOWED + 3 * error:
                line = f"{name}, {way}: {percent:.1f} % called different, expected at most {100 * ALPHA:g}"
                report.failures.append(line)
    return report


def samples(folder: Path) -> dict[str, Sample]:
    """The WER of the one arm in a folder by test set. Raises UsageError where there are several, or too few runs."""
    arms = assign(load([folder]), Options()).layout.arms
    runs = len(arms[0].results) if len(arms) == 1 else 0
    if runs < FEWEST:
        text = f"{len(arms)} arms, {runs} runs: expected one arm with {FEWEST} seeds or more"
        raise UsageError(f"--runs {folder}: {text}")
    sets = sorted({row["set"] for run in arms[0].runs for row in run.utterances})
    return {name: measure_set(arms, arms[0], name, "wer").samples[arms[0].name] for name in sets}


def ways(half: int) -> dict[str, Sequence[tuple[int, Procedure]]]:
    """The looks of each kind of verdict: runs of a half, and the test at that look."""
    looks = planned_looks(half)
    planned = [(runs, GroupSequential(looks, number, ALPHA)) for number, runs in enumerate(looks)]
    return {
        "at all runs": [(half, FixedLength())],
        f"at looks of {', '.join(map(str, looks))}": planned,
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

"""How large the gradient was over training, and where it was lost (Ambroszczyk2019 §2.6)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from asr_ablations.comparison.arm import Arm
from asr_ablations.runs.reader import read_gradient_norms
from asr_ablations.runs.record import RunRecord


@dataclass(frozen=True)
class Gradients:
    """The norm of the whole gradient before clipping, at every step of one run.

    median, high: of the finite ones, high for the 95th percentile; largest: the largest of them, at step largest_at;
    not_finite: steps without a finite norm; diverged_at: the step whose loss was no number. Steps count from 1.
    """

    arm: str
    seed: int
    steps: int
    median: float
    high: float
    largest: float
    largest_at: int
    not_finite: int
    diverged_at: int | None


def observed(arm: Arm) -> list[RunRecord]:
    """The runs whose gradients are shown: the first seed of an arm, and every run that diverged."""
    return [*arm.runs[:1], *arm.diverged]


def gradients(arms: Sequence[Arm]) -> list[Gradients]:
    """A row for each observed run that recorded its norms."""
    rows = [_row(arm.name, run) for arm in arms for run in observed(arm)]
    return [row for row in rows if row is not None]


def _row(name: str, run: RunRecord) -> Gradients | None:
    norms = np.array(read_gradient_norms(run.folder))
    finite = np.isfinite(norms)
    if not finite.any():
        return None
    at = int(np.argmax(np.where(finite, norms, -np.inf)))
    median, high = np.percentile(norms[finite], [50, 95])
    lost = int((~finite).sum())
    return Gradients(
        name, run.seed, len(norms), float(median), float(high), float(norms[at]), at + 1, lost, run.diverged_at
    )

"""The section on the gradient's norm."""

from asr_ablations.comparison.gradients import gradients
from asr_ablations.comparison.result import Comparison
from asr_ablations.report.section import Section, number


def gradient_section(comparison: Comparison) -> Section:
    """A row for the first seed of each arm and for every run that diverged (Ambroszczyk2019 §2.6)."""
    rows = [
        [
            row.arm,
            str(row.seed),
            number(row.steps),
            *(f"{norm:.3g}" for norm in (row.median, row.high, row.largest)),
            number(row.largest_at),
            number(row.not_finite),
            "" if row.diverged_at is None else number(row.diverged_at),
        ]
        for row in gradients(comparison.arms)
    ]
    head = ["arm", "seed", "steps", "median", "95 %", "largest", "at step", "not finite", "diverged at step"]
    return Section("Norm of the gradient before clipping, first seed and diverged runs", head, rows)

"""The figures of a comparison."""

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib import rc_context

from asr_ablations.comparison.result import Comparison
from asr_ablations.report.figures.error_rates import draw_differences, draw_looks, draw_rates, draw_seeds
from asr_ablations.report.figures.search import draw_loss_against_wer, draw_search
from asr_ablations.report.figures.training_curves import (
    draw_error_rates,
    draw_gradient_norm,
    draw_throughput,
    draw_training_loss,
)
from asr_ablations.report.figures.training_times import draw_batch_phases, draw_scaling, draw_time_to_accuracy
from asr_ablations.report.figures.utilisation import draw_utilisation
from asr_ablations.tools.plotting import LOOK

Figure = Callable[[Comparison, Path], list[Path]]
"""Draws a kind of figure into a folder, and returns the files; none where the runs have no data for it."""
KINDS: tuple[Figure, ...] = (
    draw_error_rates, draw_training_loss, draw_gradient_norm, draw_seeds, draw_rates, draw_loss_against_wer,
    draw_time_to_accuracy, draw_differences, draw_looks, draw_throughput, draw_utilisation, draw_batch_phases,
    draw_scaling, draw_search,
)  # fmt: skip


def write_figures(comparison: Comparison, folder: Path, kinds: Sequence[Figure] = KINDS) -> list[Path]:
    """Write every figure for which the runs have the data, as PNG, SVG and PDF; the paths, in the order of a report."""
    folder.mkdir(parents=True, exist_ok=True)
    with rc_context(LOOK):
        return [path for draw in kinds for path in draw(comparison, folder)]

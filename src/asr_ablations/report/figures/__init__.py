"""The figures of a comparison, a module per kind."""

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from matplotlib import rc_context

from asr_ablations.comparison.result import Comparison
from asr_ablations.report.figures import (
    batch_phases,
    curves,
    differences,
    gradient_norm,
    looks,
    loss_against_wer,
    rates,
    scaling,
    search,
    seeds,
    throughput,
    time_to_accuracy,
    training_loss,
    utilisation,
)
from asr_ablations.tools.plotting import LOOK

KINDS = (
    curves, training_loss, gradient_norm, seeds, rates, loss_against_wer, time_to_accuracy, differences, looks,
    throughput, utilisation, batch_phases, scaling, search,
)  # fmt: skip


def write_figures(comparison: Comparison, folder: Path, kinds: Sequence[ModuleType] = KINDS) -> list[Path]:
    """Write every figure for which the runs have the data, as PNG, SVG and PDF; the paths, in the order of a report."""
    folder.mkdir(parents=True, exist_ok=True)
    with rc_context(LOOK):
        return [path for kind in kinds for path in kind.draw(comparison, folder)]

"""The figures of a comparison."""

from collections.abc import Iterable
from difflib import get_close_matches
from functools import partial
from pathlib import Path

from asr_ablations.report.figures.training import draw_by, draw_scaling, draw_search, draw_time_to_accuracy
from asr_ablations.report.figures.utilisation import draw_utilisation
from asr_verdicts.comparison import Comparison
from asr_verdicts.errors import choices
from asr_verdicts.metrics import CER, CER_LONGER, LOSS, WER
from asr_verdicts.report import figures as of_verdicts
from asr_verdicts.report.figures import Draw

AXES = ("epoch", "step", "time")
CURVES: dict[str, Draw] = {
    f"{metric.name}_by_{axis}": partial(draw_by, metric, axis)
    for axis in AXES
    for metric in (WER, CER, LOSS, CER_LONGER)
}
FIGURES: dict[str, Draw] = {
    "differences": of_verdicts.draw_differences,
    "seeds": of_verdicts.draw_seeds,
    **CURVES,
    "looks": of_verdicts.draw_looks,
    "time_to_accuracy": draw_time_to_accuracy,
    "scaling": draw_scaling,
    "utilisation": draw_utilisation,
    "search": draw_search,
}
"""Functions by figure name, in drawing order: the most important come first."""


def check_figures(names: Iterable[str]) -> list[str]:
    """Return the names as a list. Raises UsageError for an unknown figure, with the nearest name."""
    wanted = list(names)
    for name in wanted:
        if name not in FIGURES:
            nearest = [f"{near} (the nearest), or one of " for near in get_close_matches(name, FIGURES, 1, 0.5)]
            raise choices("figures", name, "".join([*nearest, ", ".join(FIGURES)]))
    return wanted


def write_figures(comparison: Comparison, folder: Path, names: Iterable[str] = ()) -> list[Path]:
    """Write figures as PNG, SVG and PDF, and return their paths. names: by default, all for which the runs have data.

    Curves of the longer CER are drawn by default only if it is compared.
    """
    rare = () if comparison.metric == CER_LONGER.name else tuple(f"{CER_LONGER.name}_by_{axis}" for axis in AXES)
    wanted = list(names) or [name for name in FIGURES if name not in rare]
    return of_verdicts.write_figures(comparison, folder, {name: FIGURES[name] for name in wanted})

"""A figure of the word error rate over the weights that were tried."""

import itertools
from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.tri import Triangulation

from asr_ablations.tools.plotting import LOOK, panels, save

Trial = dict[str, float]
"""The number of a trial, its values by the decoder's key, and its WER and CER as fractions."""


def best_trial(trials: Sequence[Trial]) -> Trial:
    """The trial with the lowest WER; among equals that with the lower CER, and among those the earliest."""
    return min(trials, key=lambda trial: (trial["wer"], trial["cer"]))


def draw(trials: Sequence[Trial], keys: Sequence[str], name: str, folder: Path, file: str) -> list[Path]:
    """Draw a panel for each pair of weights, coloured by WER in percent, with the chosen values marked.

    name: of the set; file: name of the figure without its ending. Returns the paths of the figure.
    """
    pairs = list(itertools.combinations(keys, 2)) or [(keys[0], keys[0])]
    best = best_trial(trials)
    with matplotlib.rc_context(LOOK):
        figure, axes = panels(len(pairs))
        for panel, (x, y) in zip(axes, pairs, strict=True):
            _draw_panel(panel, trials, x, y, best)
            panel.set_title(f"WER % on {name}: {100 * best['wer']:.2f} at the star", loc="left")
        return save(figure, folder, file)


def _draw_panel(panel: Axes, trials: Sequence[Trial], x: str, y: str, best: Trial) -> None:
    xs, ys = ([trial[key] for trial in trials] for key in (x, y))
    percent = [100 * trial["wer"] for trial in trials]
    if _spans_a_plane(xs, ys):
        panel.tricontourf(Triangulation(xs, ys), percent, levels=12, cmap="viridis_r", alpha=0.7)
    points = panel.scatter(xs, ys, c=percent, cmap="viridis_r", edgecolors="#222222", linewidths=0.5, s=22)
    panel.plot(best[x], best[y], marker="*", color="#d55e00", markeredgecolor="white", markersize=14)
    panel.set(xlabel=x, ylabel=y)
    panel.figure.colorbar(points, ax=panel)


def _spans_a_plane(xs: Sequence[float], ys: Sequence[float]) -> bool:
    """Whether three of the points are not on one line."""
    vectors = [(a - xs[0], b - ys[0]) for a, b in zip(xs, ys, strict=True)]
    return any(abs(a * d - b * c) > 1e-9 for (a, b), (c, d) in itertools.combinations(vectors, 2))

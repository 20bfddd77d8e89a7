"""The word error rate over the weights that were tried."""

import itertools
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.tri import Triangulation

from asr_ablations.tools.plotting import LOOK, panels, save


def draw(trials: list[dict[str, Any]], keys: list[str], name: str, folder: Path, file: str) -> list[Path]:
    """A panel for each pair of weights, coloured by WER in percent, the chosen values marked."""
    pairs = list(itertools.combinations(keys, 2)) or [(keys[0], keys[0])]
    best = min(trials, key=lambda row: (row["wer"], row["cer"]))
    with matplotlib.rc_context(LOOK):
        figure, axes = panels(len(pairs))
        for panel, (x, y) in zip(axes, pairs, strict=True):
            _panel(panel, trials, x, y, best)
            panel.set_title(f"WER % on {name}: {100 * best['wer']:.2f} at the star", loc="left")
        return save(figure, folder, file)


def _panel(panel: Any, trials: list[dict[str, Any]], x: str, y: str, best: dict[str, Any]) -> None:
    xs, ys, rates = ([row[key] for row in trials] for key in (x, y, "wer"))
    percent = [100 * rate for rate in rates]
    if _spans_a_plane(xs, ys):
        panel.tricontourf(Triangulation(xs, ys), percent, levels=12, cmap="viridis_r", alpha=0.7)
    shown = panel.scatter(xs, ys, c=percent, cmap="viridis_r", edgecolors="#222222", linewidths=0.5, s=22)
    panel.plot(best[x], best[y], marker="*", color="#d55e00", markeredgecolor="white", markersize=14)
    panel.set(xlabel=x, ylabel=y)
    panel.figure.colorbar(shown, ax=panel)


def _spans_a_plane(xs: list[float], ys: list[float]) -> bool:
    """Whether three points are not on one line."""
    vectors = [(a - xs[0], b - ys[0]) for a, b in zip(xs, ys, strict=True)]
    return any(abs(a * d - b * c) > 1e-9 for (a, b), (c, d) in itertools.combinations(vectors, 2))

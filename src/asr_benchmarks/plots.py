"""Plots of a benchmark's result, drawn from what result.json says."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

KINDS = ("bars", "lines")
FEW = 8
"""Whole numbers on an axis that are each named."""


def plot(
    title: str, kind: str, x: str, y: str, series: Mapping[str, Mapping[Any, float | None]], log: bool = False
) -> dict[str, Any]:
    """What a plot shows, for result.json: `series` gives y by x for each name. kind: bars or lines (x is a number);
    log: logarithmic y.
    """
    if kind not in KINDS:
        raise ValueError(f"kind={kind}: expected {', '.join(KINDS)}")
    points = {name: [[at, value] for at, value in values.items()] for name, values in series.items()}
    return {"title": title, "kind": kind, "x": x, "y": y, "log": log, "series": points}


def draw(plots: Sequence[Mapping[str, Any]], folder: Path) -> list[Path]:
    """Each plot as <folder>/<title>.png and .svg; the paths."""
    if not plots:
        return []
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib import rc_context

    from asr_ablations.tools.files import slug
    from asr_ablations.tools.plotting import LOOK

    written = []
    with rc_context(LOOK):
        for told in plots:
            figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
            (_bars if told["kind"] == "bars" else _lines)(axes, told["series"])
            axes.set(title=told["title"], xlabel=told["x"], ylabel=told["y"])
            _scale(axes, told)
            axes.legend(fontsize="small")
            for suffix in ("png", "svg"):
                path = folder / f"{slug(told['title'].lower().replace(' ', '-'))}.{suffix}"
                figure.savefig(path, dpi=150)
                written.append(path)
            plt.close(figure)
    return written


def _scale(axes: Any, told: Mapping[str, Any]) -> None:
    """From 0 up, or logarithmic where that is asked for and the values span enough."""
    from asr_ablations.tools.plotting import log_scale

    known = [value for points in told["series"].values() for _, value in points if value is not None]
    if told["log"]:
        log_scale(axes, known)
    elif known and min(known) >= 0:
        axes.set_ylim(bottom=0)


def _bars(axes: Any, series: Mapping[str, Sequence[Any]]) -> None:
    places = list(dict.fromkeys(str(at) for points in series.values() for at, _ in points))
    width = 0.8 / max(1, len(series))
    for number, (name, points) in enumerate(series.items()):
        known = [(places.index(str(at)), value) for at, value in points if value is not None]
        shifts = [place + (number - (len(series) - 1) / 2) * width for place, _ in known]
        axes.bar(shifts, [value for _, value in known], width, label=name)
    axes.set_xticks(range(len(places)), places)


def _lines(axes: Any, series: Mapping[str, Sequence[Any]]) -> None:
    for name, points in series.items():
        known = sorted((at, value) for at, value in points if value is not None)
        axes.plot([at for at, _ in known], [value for _, value in known], marker="o", label=name)
    places = sorted({at for points in series.values() for at, _ in points})
    if len(places) <= FEW and all(isinstance(at, int) for at in places):  # ranks, layers: there is nothing between
        axes.set_xticks(places)

"""Draw a benchmark's plots from their descriptions in result.json."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypedDict, TypeVar

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW = 8
"""If an x axis has at most this many distinct values, all integers, each value gets a tick."""

X = TypeVar("X", bound=float | str)

Series: TypeAlias = dict[str, list[tuple[float | str, float | None]]]
"""The points (x, y) of each line or bar group, by its name. y is None if it was not measured."""


class Plot(TypedDict):
    """A plot's description. kind: bars or lines. x, y: axis labels. log: whether the y axis is logarithmic."""

    title: str
    kind: str
    x: str
    y: str
    log: bool
    series: Series


def plot(
    title: str, kind: str, x: str, y: str, series: Mapping[str, Mapping[X, float | None]], log: bool = False
) -> Plot:
    """Describe a plot. series: maps the name of each line or bar group to its y values by x."""
    points: Series = {name: [(place, value) for place, value in values.items()] for name, values in series.items()}
    return {"title": title, "kind": kind, "x": x, "y": y, "log": log, "series": points}


def draw(plots: Sequence[Plot], folder: Path) -> list[Path]:
    """Draw each plot as PNG and SVG files in `folder`, named after its title. Return the paths."""
    if not plots:
        return []
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib import rc_context

    from asr_verdicts.files import slug
    from asr_verdicts.plotting import LOOK, PAGE, log_scale

    paths = []
    with rc_context(LOOK):
        for shown in plots:
            figure, axes = plt.subplots(figsize=(PAGE, 0.55 * PAGE), layout="constrained")
            (_draw_bars if shown["kind"] == "bars" else _draw_lines)(axes, shown["series"])
            axes.set(title=shown["title"], xlabel=shown["x"], ylabel=shown["y"])
            values = [y for points in shown["series"].values() for _, y in points if y is not None]
            if shown["log"]:  # log_scale keeps the axis linear if all values are close together
                log_scale(axes, values)
            elif values and min(values) >= 0:
                axes.set_ylim(bottom=0)
            axes.legend(fontsize="small")
            for suffix in ("png", "svg"):
                paths.append(folder / f"{slug(shown['title'].lower().replace(' ', '-'))}.{suffix}")
                figure.savefig(paths[-1], dpi=150)
            plt.close(figure)
    return paths


def _draw_bars(axes: "Axes", series: Series) -> None:
    places = list(dict.fromkeys(str(x) for points in series.values() for x, _ in points))
    width = 0.8 / max(1, len(series))
    for number, (name, points) in enumerate(series.items()):
        shift = (number - (len(series) - 1) / 2) * width
        bars = [(places.index(str(x)) + shift, y) for x, y in points if y is not None]
        axes.bar([x for x, _ in bars], [y for _, y in bars], width, label=name)
    axes.set_xticks(range(len(places)), places)


def _draw_lines(axes: "Axes", series: Series) -> None:
    for name, points in series.items():
        measured = sorted((x, y) for x, y in points if y is not None)
        axes.plot([x for x, _ in measured], [y for _, y in measured], marker="o", label=name)
    ticks = sorted({x for points in series.values() for x, _ in points})
    if len(ticks) <= FEW and all(isinstance(x, int) for x in ticks):  # such as numbers of ranks
        axes.set_xticks(ticks)

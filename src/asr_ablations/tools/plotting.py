"""The look of all figures: arms differ in colour, line style, marker and hatch, so that they can be read in grey."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from asr_ablations.tools.files import Json, named

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#aa4499", "#e69f00", "#56b4e9", "#333333", "#999933")
"""Okabe and Ito's colours, which colour-blind readers can tell apart, with the yellow replaced."""
LINES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (1, 1)), (0, (3, 4)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "---", "+++", "ooo")
PANEL = (4.6, 3.3)
"""Width and height of one panel, inches."""
FORMATS: dict[str, Json] = {
    "png": {"dpi": 300},  # as journals ask for
    "svg": {"metadata": {"Date": None}},
    "pdf": {"metadata": {"CreationDate": None}},
}
"""Options of Figure.savefig for every figure."""
TALL = 0.6
"""The least share of a figure's height that a legend leaves to the panels."""
LOOK: Any = {
    "pdf.fonttype": 42,  # text that can be searched; some printers refuse matplotlib's default
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.handlelength": 3.2,
    "hatch.linewidth": 0.6,
    "text.usetex": False,
    "text.parse_math": False,  # names of arms are no formulas
    "svg.fonttype": "none",
    "svg.hashsalt": "asr-ablations",  # the same comparison gives the same file
}


def panels(
    columns: int, rows: int = 1, *, size: tuple[float, float] = PANEL, **options: Any
) -> tuple[Figure, list[Axes]]:
    """A figure of rows × columns panels, and the panels row by row."""
    figure = Figure(figsize=(columns * size[0], rows * size[1]), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, list(axes.flat)


def line(arm: int) -> Json:
    """Options of Axes.plot for the arm with this number."""
    return {"color": COLOURS[arm % 8], "linestyle": LINES[arm % 8], "linewidth": 1.5}


def marker(arm: int) -> Json:
    """Options of a marker for the arm with this number."""
    return {"marker": MARKERS[arm % 8], "markersize": 4.5, "markerfacecolor": "white", "color": COLOURS[arm % 8]}


def bar(arm: int) -> Json:
    """Options of Axes.bar for the arm with this number."""
    return {"facecolor": COLOURS[arm % 8] + "bb", "edgecolor": "#222222", "linewidth": 0.7, "hatch": HATCHES[arm % 8]}


def log_scale(axes: Axes, values: Iterable[float]) -> None:
    """A logarithmic y axis with plain numbers, where every value is above 0 and they span more than a factor of 2."""
    numbers = list(values)
    if not numbers or min(numbers) <= 0 or max(numbers) / min(numbers) < 2:
        return
    axes.set_yscale("log")
    plain_numbers(axes.yaxis, (1, 2, 5))


def plain_numbers(axis: Axis, leading: Sequence[int]) -> None:
    """Plain numbers at a logarithmic axis, those with these leading digits."""
    axis.set_major_locator(LogLocator(subs=leading))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def legend(figure: Figure, axes: Axes) -> None:
    """One legend for all panels, above them."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        whole_legend(figure, handles, labels)


def whole_legend(figure: Figure, handles: Sequence[Artist], labels: Sequence[str], **options: Any) -> None:
    """A legend above all panels with as many columns as fit. A figure that is too narrow for one of them is widened,
    and one that would leave the panels less than TALL of its height is made taller by the legend.
    """
    for columns in range(len(labels), 0, -1):
        box = figure.legend(handles, labels, loc="outside upper center", ncols=columns, frameon=False, **options)
        extent = box.get_window_extent(figure.canvas.get_renderer())  # type: ignore[attr-defined]
        width, height = extent.width / figure.dpi, extent.height / figure.dpi
        if width <= figure.get_figwidth() or columns == 1:
            break
        box.remove()
    figure.set_figwidth(max(figure.get_figwidth(), width))
    if height > (1 - TALL) * figure.get_figheight():
        figure.set_figheight(figure.get_figheight() + height)


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """<folder>/<name>.png, .svg and .pdf: for a page, an editor and LaTeX."""
    paths = {kind: folder / f"{name}.{kind}" for kind in FORMATS}
    for kind, path in paths.items():
        with named(path):
            figure.savefig(path, **FORMATS[kind])
    return list(paths.values())

"""The style of all figures, which are as wide as a column or a page of a journal and have 8 pt text.

Arms differ in colour, line style and marker, so that figures can be read in black and white.
"""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from asr_verdicts.files import Json, named

# the colour-blind-safe colours of Okabe and Ito, with the yellow replaced
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#aa4499", "#e69f00", "#56b4e9", "#333333", "#999933")
LINES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (1, 1)), (0, (3, 4)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
COLUMN, PAGE = 84 / 25.4, 174 / 25.4  # widths of a figure, inches
HEIGHT = 58 / 25.4  # height of a row of panels, inches
ACROSS = 3  # largest number of panels in a row
LETTER = 4.8  # mean width of a letter, points
FORMATS: dict[str, Json] = {
    "png": {"dpi": 300},  # as journals ask for
    "svg": {"metadata": {"Date": None}},
    "pdf": {"metadata": {"CreationDate": None}},
}  # options of Figure.savefig for every figure
TALL = 0.6  # smallest share of a figure's height that a legend leaves to the panels
LOOK: Any = {
    "pdf.fonttype": 42,  # TrueType fonts: the text can be searched, and some publishers reject matplotlib's default
    "font.size": 8,
    "axes.titlesize": 8,
    "legend.fontsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.handlelength": 2.8,
    "text.usetex": False,
    "text.parse_math": False,  # otherwise an arm's name with $ would be read as a formula
    "svg.fonttype": "none",
    "svg.hashsalt": "asr-ablations",  # makes files of the same comparison identical
}


def panels(
    columns: int, rows: int = 1, *, width: float | None = None, height: float = HEIGHT, **options: Any
) -> tuple[Figure, list[Axes]]:
    """Create a figure of rows × columns panels. Return it and its panels, row by row.

    - width: width of the figure in inches, by default a journal column for one column of panels and a page for several
    - height: height of a row in inches
    """
    width = width or (COLUMN if columns == 1 else PAGE)
    figure = Figure(figsize=(width, rows * height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, list(axes.flat)


def grid(count: int, **options: Any) -> tuple[Figure, list[Axes]]:
    """Create a figure of `count` panels with at most ACROSS in a row. Return it and its panels."""
    rows = math.ceil(count / ACROSS)
    figure, axes = panels(math.ceil(count / rows), rows, **options)
    for empty in axes[count:]:
        figure.delaxes(empty)
    return figure, axes[:count]


def width_for(labels: Iterable[str]) -> float:
    """Return the width of a figure with these labels: a column if they take at most half of it, else a page."""
    return COLUMN if 2 * LETTER * max(map(len, labels), default=0) < 72 * COLUMN else PAGE


def wrapped(panel: Axes, text: str, share: float = 0.9) -> str:
    """Wrap a text to a share of the width of a panel."""
    place = panel.get_subplotspec()
    columns = 1 if place is None else place.get_gridspec().ncols
    figure = panel.get_figure(root=True)
    assert figure is not None
    letters = max(8, int(share * 72 * figure.get_figwidth() / columns / LETTER))
    return fill(text, letters, break_long_words=False, break_on_hyphens=False)


def line(arm: int) -> Json:
    """Return the options of Axes.plot for the arm with this number."""
    return {"color": COLOURS[arm % 8], "linestyle": LINES[arm % 8], "linewidth": 1.5}


def marker(arm: int) -> Json:
    """Return the options of markers for the arm with this number."""
    return {"marker": MARKERS[arm % 8], "markersize": 4.5, "markerfacecolor": "white", "color": COLOURS[arm % 8]}


def draw_strip(panel: Axes, x: float, width: float, values: Iterable[float], look: Json, *, mean: bool = True) -> None:
    """Draw a dot per value and, if `mean` is set, a line at the mean with a band of ± the standard deviation."""
    ends, numbers = [x - 0.35 * width, x + 0.35 * width], np.array([*values])
    panel.plot(x + 0.5 * width * (np.linspace(0, 1, len(numbers)) - 0.5), numbers, "o", color="black", markersize=3)
    middle = numbers.mean() if mean and len(numbers) else np.nan
    panel.plot(ends, [middle, middle], **look)
    if mean and len(numbers) > 1:
        deviation = numbers.std(ddof=1)
        panel.fill_between(ends, middle - deviation, middle + deviation, color=look["color"], alpha=0.15, linewidth=0)


LEADING = (1, 2, 5)  # leading digits of labels on a logarithmic axis
FEWEST_LABELS = 3  # smallest number of labels with which a logarithmic axis is readable


def log_scale(axes: Axes, values: Iterable[float]) -> None:
    """Make the y axis logarithmic, with plain numbers, if all values are positive and span FEWEST_LABELS labels."""
    numbers = list(values)
    if not numbers or min(numbers) <= 0:
        return
    least, most = min(numbers), max(numbers)
    powers = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    if sum(least <= digit * 10.0**power <= most for power in powers for digit in LEADING) < FEWEST_LABELS:
        return
    axes.set_yscale("log")
    plain_numbers(axes.yaxis, LEADING)


def plain_numbers(axis: Axis, leading: Sequence[int]) -> None:
    """Label a logarithmic axis with plain numbers that have these leading digits."""
    axis.set_major_locator(LogLocator(subs=leading))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def legend(figure: Figure, axes: Axes) -> None:
    """Draw one legend for all panels above them."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        whole_legend(figure, handles, labels)


def whole_legend(figure: Figure, handles: Sequence[Artist], labels: Sequence[str], **options: Any) -> None:
    """Draw a legend above all panels, with as many columns as fit and long labels wrapped.

    If it would leave the panels less than the share TALL of the height, the figure grows by the height of the legend.
    """
    letters = int(0.8 * 72 * figure.get_figwidth() / LETTER)
    labels = [fill(label, letters, break_on_hyphens=False) for label in labels]
    for columns in range(len(labels), 0, -1):
        box = figure.legend(handles, labels, loc="outside upper center", ncols=columns, frameon=False, **options)
        extent = box.get_window_extent(figure.canvas.get_renderer())  # type: ignore[attr-defined]
        if extent.width <= figure.bbox.width or columns == 1:
            break
        box.remove()
    height = extent.height / figure.dpi
    if height > (1 - TALL) * figure.get_figheight():
        figure.set_figheight(figure.get_figheight() + height)


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write <folder>/<name>.png, .svg and .pdf, and return their paths."""
    paths = {kind: folder / f"{name}.{kind}" for kind in FORMATS}
    for kind, path in paths.items():
        with named(path):
            figure.savefig(path, **FORMATS[kind])
    return list(paths.values())

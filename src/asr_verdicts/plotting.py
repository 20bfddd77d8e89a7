"""The style of all figures: 8 pt text, and the width of a journal column or page.

Arms differ in colour, line style and marker, because figures may be printed in black and white.
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

# based on the colour-blind-safe palette of Okabe and Ito, without its light yellow
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#aa4499", "#e69f00", "#56b4e9", "#333333", "#999933")
LINES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (1, 1)), (0, (3, 4)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
COLUMN, PAGE = 84 / 25.4, 174 / 25.4  # widths of a figure in a journal, in inches
HEIGHT = 58 / 25.4  # height of a row of panels, in inches
ACROSS = 3  # largest number of panels in a row
LETTER = 4.8  # mean width of a letter, in points
FORMATS: dict[str, Json] = {
    "png": {"dpi": 300},  # resolution required by journals
    "svg": {"metadata": {"Date": None}},
    "pdf": {"metadata": {"CreationDate": None}},
}  # options of Figure.savefig for each file format; dates would make files of equal figures differ
TALL = 0.6  # smallest share of a figure's height that the panels get if there is a legend
LOOK: Any = {
    "pdf.fonttype": 42,  # TrueType fonts make text searchable, and some publishers reject matplotlib's default
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
    "text.parse_math": False,  # otherwise a $ in an arm's name would start a formula
    "svg.fonttype": "none",
    "svg.hashsalt": "asr-ablations",  # a fixed salt makes SVG files reproducible
}


def panels(
    columns: int, rows: int = 1, *, width: float | None = None, height: float = HEIGHT, **options: Any
) -> tuple[Figure, list[Axes]]:
    """Create a figure with rows × columns panels. Return the figure and a list of its panels, row by row.

    - width: width of the figure in inches, by default a journal column for one column of panels and a page for several
    - height: height of each row of panels in inches
    """
    width = width or (COLUMN if columns == 1 else PAGE)
    figure = Figure(figsize=(width, rows * height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, list(axes.flat)


def grid(count: int, **options: Any) -> tuple[Figure, list[Axes]]:
    """Create a figure with `count` panels, at most ACROSS per row. Return the figure and a list of its panels."""
    rows = math.ceil(count / ACROSS)
    figure, axes = panels(math.ceil(count / rows), rows, **options)
    for empty in axes[count:]:
        figure.delaxes(empty)
    return figure, axes[:count]


def width_for(labels: Iterable[str]) -> float:
    """Return the figure width in inches: a journal column if the labels fit into half of it, else a page."""
    return COLUMN if 2 * LETTER * max(map(len, labels), default=0) < 72 * COLUMN else PAGE


def wrapped(panel: Axes, text: str, share: float = 0.9) -> str:
    """Wrap a text to a given share of a panel's width."""
    place = panel.get_subplotspec()
    columns = 1 if place is None else place.get_gridspec().ncols
    figure = panel.get_figure(root=True)
    assert figure is not None
    letters = max(8, int(share * 72 * figure.get_figwidth() / columns / LETTER))
    return fill(text, letters, break_long_words=False, break_on_hyphens=False)


def line(arm: int) -> Json:
    """Return the line options of Axes.plot for an arm, given the arm's index."""
    return {"color": COLOURS[arm % 8], "linestyle": LINES[arm % 8], "linewidth": 1.5}


def marker(arm: int) -> Json:
    """Return the marker options of Axes.plot for an arm, given the arm's index."""
    return {"marker": MARKERS[arm % 8], "markersize": 4.5, "markerfacecolor": "white", "color": COLOURS[arm % 8]}


def draw_strip(panel: Axes, x: float, width: float, values: Iterable[float], look: Json, *, mean: bool = True) -> None:
    """Draw one dot per value and, if `mean` is set, the mean with a band of ± one standard deviation."""
    ends, numbers = [x - 0.35 * width, x + 0.35 * width], np.array([*values])
    panel.plot(x + 0.5 * width * (np.linspace(0, 1, len(numbers)) - 0.5), numbers, "o", color="black", markersize=3)
    middle = numbers.mean() if mean and len(numbers) else np.nan
    panel.plot(ends, [middle, middle], **look)
    if mean and len(numbers) > 1:
        deviation = numbers.std(ddof=1)
        panel.fill_between(ends, middle - deviation, middle + deviation, color=look["color"], alpha=0.15, linewidth=0)


LEADING = (1, 2, 5)  # leading digits of the numbers at which a logarithmic axis has labels
FEWEST_LABELS = 3  # smallest number of labels that makes a logarithmic axis readable


def log_scale(axes: Axes, values: Iterable[float]) -> None:
    """Make the y axis logarithmic if all values are positive and it then has at least FEWEST_LABELS labels."""
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
    """Label a logarithmic axis with plain numbers, such as 0.2 and 20, that have the given leading digits."""
    axis.set_major_locator(LogLocator(subs=leading))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def legend(figure: Figure, axes: Axes) -> None:
    """Draw one legend above all panels of a figure, with the labelled lines of the panel `axes`."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        whole_legend(figure, handles, labels)


def whole_legend(figure: Figure, handles: Sequence[Artist], labels: Sequence[str], **options: Any) -> None:
    """Draw a legend above all panels, with as many columns as fit and long labels wrapped.

    If the panels would get less than the share TALL of the figure's height, the figure grows by the legend's height.
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


def save(figure: Figure, folder: Path, name: str, kinds: Iterable[str] = ()) -> list[Path]:
    """Write <folder>/<name>.<kind> for each kind, by default PNG, SVG and PDF, and return their paths."""
    paths = {kind: folder / f"{name}.{kind}" for kind in kinds or FORMATS}
    for kind, path in paths.items():
        with named(path):
            figure.savefig(path, **FORMATS[kind])
    return list(paths.values())

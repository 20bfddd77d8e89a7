"""Chosen utterances of a run: spectrum and posteriors over time, with the best path, and where the hypothesis errs."""

import base64
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asr_ablations.report.inspection import Inspected, error_spans
from asr_verdicts.plotting import LOOK, PAGE, panels, save

ROW = 1.8
"""Height of one panel, inches; each utterance has two, one above the other."""
LIKELY = 0.1
"""A symbol that never is as probable as this has no row among the posteriors."""
ERROR = "#d55e00"
PAGE_DPI = 110


def draw_inspected(inspected: Sequence[Inspected], folder: Path) -> list[Path]:
    """utterance_worst, utterance_median and utterance_best."""
    folder.mkdir(parents=True, exist_ok=True)
    with rc_context(LOOK):
        return [path for seen in inspected for path in save(_figure(seen), folder, f"utterance_{seen.kind}")]


def as_address(seen: Inspected) -> str:
    """The same picture as a data: address, for a page."""
    file = io.BytesIO()
    with rc_context(LOOK):
        _figure(seen).savefig(file, dpi=PAGE_DPI, format="png")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def _figure(seen: Inspected) -> Figure:
    figure, (spectrum, posteriors) = panels(1, 2, width=PAGE, height=ROW, sharex=True)
    seconds = float(seen.row["duration"])
    _draw_spectrum(spectrum, seen, seconds)
    _draw_posteriors(posteriors, seen, seconds)
    for (begin, end), text in error_spans(seen):
        for panel in (spectrum, posteriors):
            panel.axvspan(begin, max(end, begin + 0.02), color=ERROR, alpha=0.22, linewidth=0)
        spectrum.annotate(
            text, ((begin + end) / 2, 1), xycoords=("data", "axes fraction"), rotation=25, fontsize=7, color=ERROR,
            ha="left", va="bottom",
        )  # fmt: skip
    posteriors.set_xlabel("time in seconds; shaded: where the hypothesis errs")
    posteriors.set_xlim(0, seconds)
    return figure


def _draw_spectrum(panel: Axes, seen: Inspected, seconds: float) -> None:
    bins = seen.features.shape[1]
    panel.imshow(seen.features.T, origin="lower", aspect="auto", extent=(0, seconds, 0, bins), cmap="Greys")
    panel.set_ylabel("feature, normalised")
    panel.grid(False)


def _draw_posteriors(panel: Axes, seen: Inspected, seconds: float) -> None:
    """A row for each symbol that is ever likely, and a dot for the most probable one of each frame, blanks left out."""
    probabilities = np.exp(seen.log_probs[:, 1:])
    rows = np.flatnonzero(probabilities.max(axis=0, initial=0) >= LIKELY).tolist()
    panel.set_ylabel("posterior, best path")
    panel.grid(False)
    if not rows:
        return
    shown = probabilities[:, rows].T
    extent = (0, seconds, -0.5, len(rows) - 0.5)
    panel.imshow(shown, origin="lower", aspect="auto", extent=extent, cmap="Blues", vmin=0, vmax=1)
    panel.set_yticks(range(len(rows)), [seen.symbols[row] for row in rows], fontsize=7)
    best = seen.log_probs.argmax(axis=1)
    place = {row + 1: number for number, row in enumerate(rows)}
    frames = [frame for frame in range(len(best)) if best[frame] in place]
    times = (np.array(frames) + 0.5) * seen.step
    panel.plot(times, [place[int(best[frame])] for frame in frames], ".", color="#333333", markersize=3)

"""The figure of the sources of noise."""

from pathlib import Path

from asr_ablations.comparison.derived_tables import noise_sources
from asr_verdicts.comparison import Comparison
from asr_verdicts.plotting import (
    marker,
    panels,
    plain_numbers,
    save,
    width_for,
    wrapped,
)


def draw_noise(comparison: Comparison, folder: Path) -> list[Path]:
    """sources_of_noise: the share of the variance of all sources together that each gives alone, with its interval."""
    shares = [
        (place, row.arm, row.share) for place, row in enumerate(noise_sources(comparison)) if row.share is not None
    ]
    if not shares:
        return []
    labels = [arm for _, arm, _ in reversed(shares)]
    figure, (panel,) = panels(1, width=width_for(labels), height=0.9 + 0.24 * len(shares))
    for height, (place, _, share) in enumerate(reversed(shares)):
        ends = [[share.value - share.low], [share.high - share.value]]
        panel.errorbar(share.value, height, xerr=ends, **{**marker(place), "linestyle": "-", "capsize": 3})
    panel.axvline(1, color="#333333", linewidth=1)
    panel.set_xscale("log")
    plain_numbers(panel.xaxis, (1, 3))
    panel.set_yticks(range(len(shares)), labels)
    panel.set_ylim(-0.6, len(shares) - 0.4)
    figure.supxlabel(wrapped(panel, f"share of the variance of {comparison.baseline}, 95 % interval"), fontsize=8)
    panel.grid(False, axis="y")
    return save(figure, folder, "sources_of_noise")

"""The noise of seeds over many sweeps, as a section of RESULTS.md."""

from collections.abc import Sequence

import numpy as np

from asr_ablations.comparison.metrics import find_metric
from asr_ablations.comparison.result import Comparison
from asr_ablations.comparison.seed_variance import COMMON, SetNoise, noise_of_runs
from asr_ablations.report.formats import table

HEADING = "Noise of seeds"
FEWEST = 3
"""Seeds of an arm whose own deviation is shown."""
DEVIATIONS = ("corpus and set", "utterances", "runs", "arms", "degrees of freedom", "deviation", "least", "greatest")
CORRELATIONS = ("corpus and set", "pairs of arms", "median", "quartiles", "least", "greatest")


def seed_noise_section(comparisons: Sequence[tuple[str, Comparison]]) -> list[str]:
    """Paragraphs of Markdown, below a heading; empty where no arm has two seeds. comparisons: with their sweeps'
    names.
    """
    sets = noise_of_runs(comparisons)
    if not sets:
        return []
    parts = [
        f"## {HEADING}",
        "Standard deviation of the error rate over seeds, pooled over all arms above with two seeds and more, in "
        f"points. Least and greatest: of the arms with {FEWEST} seeds and more.",
        table(DEVIATIONS, [_deviations(noise) for noise in sets]),
    ]
    correlated = [noise for noise in sets if noise.correlations]
    if correlated:
        parts += [
            f"Correlation of the error rates of equal seeds, over the pairs of arms of a sweep that share {COMMON} "
            "seeds and more; the pairs that are one training under two names are left out.",
            table(CORRELATIONS, [_correlations(noise) for noise in correlated]),
        ]
    return parts


def _deviations(noise: SetNoise) -> list[str]:
    metric = find_metric(noise.metric)
    arms = sorted((arm for arm in noise.arms if len(arm.values) >= FEWEST), key=lambda arm: (arm.deviation, arm.name))
    ends = [f"{metric.text(arm.deviation)} ({arm.name}, {len(arm.values)} seeds)" for arm in arms]
    return [
        f"{noise.corpus}: {noise.set}",
        f"{noise.utterances:,}",
        str(noise.runs),
        str(len(noise.arms)),
        str(noise.degrees),
        f"{metric.text(noise.deviation)} {metric.label}",
        ends[0] if ends else "–",
        ends[-1] if ends else "–",
    ]


def _correlations(noise: SetNoise) -> list[str]:
    pairs = sorted((r, f"{one} and {other.partition(': ')[2]}") for (one, other), r in noise.correlations.items())
    values = [r for r, _ in pairs]
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75])
    ends = [f"{r:+.2f} ({name})" for r, name in (pairs[0], pairs[-1])]
    return [f"{noise.corpus}: {noise.set}", str(len(pairs)), f"{median:+.2f}", f"{low:+.2f} to {high:+.2f}", *ends]

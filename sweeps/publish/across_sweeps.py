"""Sections of RESULTS.md about all sweeps together: the noise of seeds, and whether the loss ranks runs."""

from collections.abc import Sequence

import numpy as np

from asr_verdicts.comparison import Comparison
from asr_verdicts.metrics import find_metric
from asr_verdicts.report.formats import table
from asr_verdicts.statistics.sample import Correlation
from publish.loss_ranks import LossRanks, loss_ranks
from publish.seed_noise import COMMON, SetNoise, noise_of_runs

HEADING = "Noise of seeds"
LOSS_HEADING = "Validation loss against error rate"
FEWEST = 3
"""Seeds of an arm whose own deviation is shown."""
DEVIATIONS = (
    *("corpus and set", "utterances", "runs", "arms", "degrees of freedom", "deviation", "least", "greatest"),
    "arm with the most seeds",
)
RANKS = ("corpus, loss of, rate on", "runs", "of runs", "arms", "of arms' means", "within arms")
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
        f"points. Least and greatest: of the arms with {FEWEST} seeds and more. The arm with the most seeds, which "
        "several sweeps may have trained: its mean ± standard deviation.",
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
    most = max(noise.arms, key=lambda arm: len(arm.values))
    ends = [f"{metric.text(arm.deviation)} ({arm.name}, {len(arm.values)} seeds)" for arm in arms]
    return [
        _named(f"{noise.corpus}: {noise.set}", noise.drawn),
        f"{noise.utterances:,}",
        str(noise.runs),
        str(len(noise.arms)),
        str(noise.degrees),
        f"{metric.text(noise.deviation)} {metric.label}",
        ends[0] if ends else "–",
        ends[-1] if ends else "–",
        f"{metric.spread(most.mean, most.deviation)} ({most.name}, {len(most.values)} seeds)",
    ]


def _correlations(noise: SetNoise) -> list[str]:
    pairs = sorted((r, f"{one} and {other.partition(': ')[2]}") for (one, other), r in noise.correlations.items())
    values = [r for r, _ in pairs]
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75])
    ends = [f"{r:+.2f} ({name})" for r, name in (pairs[0], pairs[-1])]
    name = _named(f"{noise.corpus}: {noise.set}", noise.drawn)
    return [name, str(len(pairs)), f"{median:+.2f}", f"{low:+.2f} to {high:+.2f}", *ends]


def loss_ranks_section(comparisons: Sequence[Comparison]) -> list[str]:
    """Paragraphs of Markdown, as of `seed_noise_section`; empty where too few runs have a loss."""
    found = loss_ranks(comparisons)
    if not found:
        return []
    return [
        f"## {LOSS_HEADING}",
        "Spearman's rank correlation of the loss on the first validation set with the error rate on the test set, both "
        "of the last weights, over all sweeps above: of the runs, of the means of arms, and within an arm, where "
        f"chance alone is ranked: the median over the arms of {COMMON} seeds and more. In brackets: 95 %, as if the "
        "runs or arms were independent.",
        table(RANKS, [_ranks(ranks) for ranks in found]),
    ]


def _ranks(ranks: LossRanks) -> list[str]:
    within = ranks.within_arms
    return [
        _named(f"{ranks.corpus}: {ranks.validation}, {find_metric(ranks.metric).label} on {ranks.test}", ranks.drawn),
        str(ranks.runs),
        _with_interval(ranks.of_runs),
        str(len(ranks.arms)),
        _with_interval(ranks.of_arms),
        f"{np.median(within):+.2f} ({len(within)} arm{'s' if len(within) > 1 else ''})" if within else "–",
    ]


def _named(data: str, drawn: str) -> str:
    """The name of the data with what the test set was drawn with: corpora of one name can have others."""
    return f"{data}, {drawn}" if drawn else data


def _with_interval(rho: Correlation | None) -> str:
    return "–" if rho is None else f"{rho.value:+.2f} ({rho.low:+.2f} to {rho.high:+.2f})"

"""The last sections of RESULTS.md, about all sweeps together: the noise of seeds, and whether the loss ranks runs."""

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from asr_ablations.comparison.metrics import LOSS, Metric, find_metric, validation_set
from asr_ablations.comparison.result import Comparison
from asr_ablations.report.formats import table
from asr_ablations.runs.record import RunRecord
from asr_ablations.runs.seed_noise import TOTALS, content_but_seed, pooled_deviation
from asr_ablations.statistics.sample import spearman

FEWEST_SEEDS = 3
"""Seeds of an arm whose own deviation is shown."""
FEWEST_PAIRS = 5
"""Seeds that a correlation needs, of two arms or within one: that of fewer can be nearly any number."""
FEWEST_RUNS = 10
"""Runs that a rank correlation over arms needs."""


@dataclass
class ArmRates:
    """The rates of an arm by seed. name: with that of the first sweep that has it."""

    name: str
    rates: dict[int, float]

    @property
    def deviation(self) -> float:
        return float(np.std(list(self.rates.values()), ddof=1))


@dataclass
class SetNoise:
    """The arms that were tested on one set, by what determines their results but the seed: several sweeps share arms.

    units: what the set was drawn with, such as 40 voices; correlations: of the rates of equal seeds, and of which arms.
    """

    run: RunRecord
    set: str
    metric: Metric
    units: str = ""
    arms: dict[str, ArmRates] = field(default_factory=dict)
    correlations: list[tuple[float, str]] = field(default_factory=list)

    @property
    def label(self) -> str:
        return label_data(self.run, self.set, self.units)


def format_seed_noise(comparisons: Sequence[Comparison]) -> list[str]:
    """Return a heading and paragraphs of Markdown; empty if no arm has two seeds. The comparisons' titles name sweeps.

    Arms with the same rates throughout are one training under two names: they count once, and their correlation does
    not. Diverged runs do not count.
    """
    sets: dict[tuple[str | None, str], SetNoise] = {}
    for comparison in comparisons:
        if comparison.runs:
            first, metric = comparison.runs[0], find_metric(comparison.metric)
            noise = sets.setdefault(
                (first.data.hash(comparison.set), metric.name), SetNoise(first, comparison.set, metric)
            )
            noise.units = noise.units or describe_units(comparison)
            add_arms(noise, comparison)
    rows = [row for noise in sets.values() for row in format_deviations(noise)]
    if not rows:
        return []
    head = ["corpus and set", "utterances", "runs", "arms", "degrees of freedom", "deviation", "least", "greatest"]
    parts = [
        "## Noise of seeds",
        "Standard deviation of the error rate over seeds, pooled over all arms above with two seeds and more, in "
        f"points. Least and greatest: of the arms with {FEWEST_SEEDS} seeds and more. The arm with the most seeds, "
        "which several sweeps may have trained: its mean ± standard deviation.",
        table([*head, "arm with the most seeds"], rows),
    ]
    correlated = [format_correlations(noise) for noise in sets.values() if noise.correlations]
    if correlated:
        parts += [
            f"Correlation of the error rates of equal seeds, over the pairs of arms of a sweep that share "
            f"{FEWEST_PAIRS} seeds and more; the pairs that are one training under two names are left out.",
            table(["corpus and set", "pairs of arms", "median", "quartiles", "least", "greatest"], correlated),
        ]
    return parts


def add_arms(noise: SetNoise, comparison: Comparison) -> None:
    """Add the runs of a sweep to the arms of its test set, and the correlations of its arms."""
    arms = []
    for arm in comparison.arms:
        rates = {run.seed: rate for run in arm.runs if (rate := run.value(noise.set, noise.metric.name)) is not None}
        if rates:
            content = content_but_seed(arm.runs[0].config, arm.runs[0].data, arm.runs[0].environment)
            of_all = noise.arms.setdefault(content, ArmRates(f"{comparison.title}: {arm.name}", {}))
            of_all.rates.update(rates)
            arms.append((arm.name, rates))
    for (name, rates), (other, others) in itertools.combinations(sorted(arms, key=lambda arm: arm[0]), 2):
        seeds = sorted(rates.keys() & others.keys())
        pairs = np.array([[of[seed] for seed in seeds] for of in (rates, others)])
        if len(seeds) >= FEWEST_PAIRS and not np.array_equal(*pairs) and pairs.std(axis=1).all():
            names = f"{comparison.title}: {name} and {other}"
            noise.correlations.append((float(np.corrcoef(pairs)[0, 1]), names))


def format_deviations(noise: SetNoise) -> list[list[str]]:
    """Return the row of a test set; none if no arm has two seeds."""
    several = [arm for arm in noise.arms.values() if len(arm.rates) > 1]
    arms = [arm for number, arm in enumerate(several) if all(arm.rates != other.rates for other in several[:number])]
    if not arms:
        return []
    metric, runs = noise.metric, sum(len(arm.rates) for arm in arms)
    total = noise.run.value(noise.set, TOTALS.get(metric.name, ""))
    pooled = pooled_deviation([list(arm.rates.values()) for arm in arms], 1 / total if total else 0.0)
    most = max(arms, key=lambda arm: len(arm.rates))
    mean = float(np.mean(list(most.rates.values())))
    ordered = sorted((arm.deviation, arm.name, len(arm.rates)) for arm in arms if len(arm.rates) >= FEWEST_SEEDS)
    ends = [f"{metric.text(deviation)} ({name}, {seeds} seeds)" for deviation, name, seeds in ordered] or ["–"]
    return [
        [
            noise.label,
            f"{noise.run.value(noise.set, 'utterances') or 0:,.0f}",
            *(str(count) for count in (runs, len(arms), runs - len(arms))),
            f"{metric.text(pooled)} {metric.label}",
            ends[0],
            ends[-1],
            f"{metric.spread(mean, most.deviation)} ({most.name}, {len(most.rates)} seeds)",
        ]
    ]


def format_correlations(noise: SetNoise) -> list[str]:
    ordered = sorted(noise.correlations)
    low, median, high = np.quantile([correlation for correlation, _ in ordered], [0.25, 0.5, 0.75])
    ends = [f"{correlation:+.2f} ({names})" for correlation, names in (ordered[0], ordered[-1])]
    return [noise.label, str(len(ordered)), f"{median:+.2f}", f"{low:+.2f} to {high:+.2f}", *ends]


Points = list[tuple[float, float]]
"""Loss of the last weights on the validation set, in nats, and their error rate on the test set."""


@dataclass
class LossRanks:
    """The runs with the same validation set, test set, metric and loss: by content of their arm and by seed."""

    run: RunRecord
    sets: str
    units: str = ""
    arms: dict[str, dict[int, tuple[float, float]]] = field(default_factory=dict)


def format_loss_ranks(comparisons: Sequence[Comparison]) -> list[str]:
    """Return a heading and paragraphs of Markdown; empty if too few runs have a loss (Ambroszczyk2019 §2.1)."""
    groups: dict[tuple[str | None, ...], LossRanks] = {}
    for comparison in comparisons:
        for run in comparison.runs:
            validation = validation_set(run) or ""
            loss, rate = run.value(validation, LOSS.name), run.value(comparison.set, comparison.metric)
            if loss is None or rate is None or not math.isfinite(loss):
                continue
            objective = json.dumps(run.config.get("loss"), sort_keys=True)
            key = (run.data.hash(validation), run.data.hash(comparison.set), comparison.metric, objective)
            sets = f"{validation}, {find_metric(comparison.metric).label} on {comparison.set}"
            ranks = groups.setdefault(key, LossRanks(run, sets))
            ranks.units = ranks.units or describe_units(comparison)
            content = content_but_seed(run.config, run.data, run.environment)
            ranks.arms.setdefault(content, {})[run.seed] = (loss, rate)
    rows = [row for ranks in groups.values() for row in format_ranks(ranks)]
    if not rows:
        return []
    return [
        "## Validation loss against error rate",
        "Spearman's rank correlation of the loss on the first validation set with the error rate on the test set, both "
        "of the last weights, over all sweeps above: of the runs, of the means of arms, and within an arm, where "
        f"chance alone is ranked: the median over the arms of {FEWEST_PAIRS} seeds and more. In brackets: 95 %, as if "
        "the runs or arms were independent.",
        table(["corpus, loss of, rate on", "runs", "of runs", "arms", "of arms' means", "within arms"], rows),
    ]


def format_ranks(ranks: LossRanks) -> list[list[str]]:
    """Return the row of a test set; none with fewer than FEWEST_RUNS. Sweeps that share runs count them once."""
    seeds = list(ranks.arms.values())
    arms = [list(arm.values()) for number, arm in enumerate(seeds) if arm not in seeds[:number]]
    points = [point for arm in arms for point in arm]
    of_runs = format_spearman(points)
    if len(points) < FEWEST_RUNS or of_runs == "–":
        return []
    means = [(float(loss), float(rate)) for loss, rate in (np.mean(arm, axis=0) for arm in arms)]
    large = [spearman(*zip(*arm, strict=True)) for arm in arms if len(arm) >= FEWEST_PAIRS]
    within = [rho.value for rho in large if rho is not None]
    median = f"{np.median(within):+.2f} ({len(within)} arm{'s' if len(within) > 1 else ''})" if within else "–"
    label = label_data(ranks.run, ranks.sets, ranks.units)
    return [[label, str(len(points)), of_runs, str(len(arms)), format_spearman(means), median]]


def format_spearman(points: Points) -> str:
    rho = spearman(*zip(*points, strict=True))
    return "–" if rho is None else f"{rho.value:+.2f} ({rho.low:+.2f} to {rho.high:+.2f})"


def label_data(run: RunRecord, sets: str, units: str) -> str:
    """Name corpus, language and sets, with the units of the test set: corpora of one name can have others."""
    data = run.config["data"]
    corpus = f"{data['_target_'].rpartition('.')[2]}, {data.get('language')}"
    return ", ".join(filter(None, [f"{corpus}: {sets}", units]))


def describe_units(comparison: Comparison) -> str:
    """Return what the test set was drawn with, such as 40 voices; empty if no verdict depends on it."""
    estimates = [verdict.contrast.estimate for verdict in comparison.verdicts]
    return next(
        (f"{estimate.speakers} {estimate.unit}" for estimate in estimates if estimate and estimate.speakers), ""
    )

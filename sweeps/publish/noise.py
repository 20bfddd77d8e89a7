"""The last sections of RESULTS.md, over all sweeps: the noise of seeds, and how well the loss ranks runs."""

import itertools
import json
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from asr_ablations.comparison.derived_tables import spearman
from asr_ablations.comparison.seed_noise import content_but_seed, seeds_to_equal, seeds_to_find
from asr_verdicts.arms import Arm, choice_of
from asr_verdicts.comparison import Comparison
from asr_verdicts.metrics import LOSS, find_metric, validation_set
from asr_verdicts.record import Record
from asr_verdicts.report.formats import table
from asr_verdicts.statistics.sample import Sample, describe
from asr_verdicts.statistics.seed_noise import TOTALS, pooled_deviation
from asr_verdicts.verdict import Verdict

FEWEST_SEEDS = 3  # per arm, to show its deviation
FEWEST_PAIRS = 5  # of seeds, for a correlation between two arms or within one
FEWEST_RUNS = 10  # for a rank correlation over arms
FEWEST_PRICED = 8  # seeds of an arm, to price an answer
BUILT_IN = "synthetic"  # the option of the built-in corpus, whose speech is generated
# the day of version 5 of the built-in corpus, the first whose test voices are variants that no training voice has
UNHEARD_SINCE = "2026-11-27"
PRICED = 0.01  # the difference whose price is computed, as a fraction
EXPLANATIONS = (
    "Standard deviation of the error rate over seeds, in points, pooled over all arms above with at least two seeds. "
    f"Least and greatest: among arms with at least {FEWEST_SEEDS} seeds. The last column is the arm with the most "
    "seeds, which several sweeps may have trained: mean ± standard deviation.",
    f"Correlation of the error rates of equal seeds, over all pairs of arms in a sweep that share at least "
    f"{FEWEST_PAIRS} seeds. Pairs that are one training under two names are left out.",
    "Processor minutes until a question about a difference of 1 point is decided between two such arms, with a "
    "probability of 80 % at a level of 5 %: either the difference is shown, or equal arms are shown to be equivalent. "
    "Brackets have the numbers at the ends of the deviation's 95 % interval. Noise of speakers is left out. A run's "
    f"minutes are processor time, or seconds × threads where it was not recorded. Arms with at least {FEWEST_PRICED} "
    "seeds.",
    "Spearman's rank correlation of the loss on the first validation set with the error rate on the test set, with the "
    "last weights, over all sweeps above. It is given for runs, for means of arms, and within arms, where it ranks "
    f"chance alone: the median over arms with at least {FEWEST_PAIRS} seeds. Brackets contain 95 % intervals, as if "
    "the runs or arms were independent.",
)
DEVIATIONS = (
    "corpus and set", "utterances", "runs", "arms", "degrees of freedom", "deviation", "least", "greatest",
    "arm with the most seeds",
)  # fmt: skip
CORRELATIONS = ("corpus and set", "pairs of arms", "median", "quartiles", "least", "greatest")
PRICES = (
    "corpus and set", "arm", "runs", "deviation", "minutes per run", "seeds per arm: shown", "equivalent",
    "minutes: shown", "equivalent",
)  # fmt: skip
RANKS = ("corpus, loss of, rate on", "runs", "of runs", "arms", "of arms' means", "within arms")


class Result(NamedTuple):
    """A finished run of an arm of a sweep. The comparison's title is the name of the sweep."""

    comparison: Comparison
    arm: Arm
    run: Record

    @property
    def rate(self) -> float:
        rate = self.run.value(self.comparison.set, self.comparison.metric)
        assert rate is not None, self.run.folder
        return rate

    @property
    def loss(self) -> float:
        """The loss of the last weights on the first validation set, in nats; nan if unknown."""
        loss = self.run.value(validation_set(self.run) or "", LOSS.name)
        return math.nan if loss is None else loss


def format_noise(comparisons: Sequence[Comparison]) -> list[str]:
    """Return headings and paragraphs of Markdown about all finished runs."""
    results = [
        Result(comparison, arm, run) for comparison in comparisons for arm in comparison.arms for run in arm.runs
    ]
    # by the first run's test set, because each seed can have its own fold
    by_set = group(results, lambda one: (one.comparison.runs[0].data.hash(one.comparison.set), one.comparison.metric))
    by_loss = group((one for one in results if math.isfinite(one.loss)), find_loss)
    tables = (
        ("## Noise of seeds", DEVIATIONS, map(format_deviations, by_set)),
        ("", CORRELATIONS, map(format_correlations, by_set)),
        ("## The price of an answer", PRICES, itertools.chain.from_iterable(map(format_prices, by_set))),
        ("## Validation loss against error rate", RANKS, map(format_ranks, by_loss)),
    )
    parts = []
    for (heading, columns, rows_of_sets), explanation in zip(tables, EXPLANATIONS, strict=True):
        if rows := list(filter(None, rows_of_sets)):
            parts += [*filter(None, [heading]), explanation, table(columns, rows)]
    return parts


def group(results: Iterable[Result], key: Callable[[Result], Hashable]) -> list[list[Result]]:
    """Group results by key, in the order of their first results."""
    groups: dict[Hashable, list[Result]] = {}
    for result in results:
        groups.setdefault(key(result), []).append(result)
    return list(groups.values())


def group_arms(results: Sequence[Result]) -> list[tuple[str, list[Result]]]:
    """Return name and results of each arm, one result per seed. The first sweep with an arm names it.

    Arms with the same results throughout are one training under two names: they count once.
    """
    arms: dict[str, tuple[str, list[Result]]] = {}
    for shared in group(results, lambda one: content_but_seed(one.arm.runs[0])):
        seeds = {one.run.seed: one for one in shared}
        values = sorted((seed, one.rate, one.loss) for seed, one in seeds.items())
        arms.setdefault(str(values), (f"{shared[0].comparison.title}: {shared[0].arm.name}", list(seeds.values())))
    return list(arms.values())


def find_loss(result: Result) -> Hashable:
    """Return the key that is equal for runs whose losses and rates can be compared."""
    run, comparison = result.run, result.comparison
    sets = run.data.hash(validation_set(run) or ""), run.data.hash(comparison.set)
    return sets, comparison.metric, json.dumps(run.config.get("loss"), sort_keys=True)


def label(results: Sequence[Result], sets: str) -> str:
    """Name corpus, language, sets and units of the test set, because corpora with one name can differ in them."""
    verdicts = [verdict for one in results for verdict in one.comparison.verdicts]
    units = describe_units(verdicts, [one.run for one in results], results[0].comparison.set)
    return ", ".join(filter(None, [f"{label_corpus(results[0].run)}: {sets}", units]))


def label_corpus(run: Record) -> str:
    """Return corpus and language, and whether it is an earlier version of the built-in corpus."""
    data = run.config["data"]
    earlier = " before version 5" if has_earlier_corpus(run) else ""
    return f"{data['_target_'].rpartition('.')[2]}{earlier}, {data.get('language')}"


def has_earlier_corpus(run: Record) -> bool:
    """Return whether a run used the built-in corpus before its version 5."""
    return choice_of(run, "data") == BUILT_IN and str(run.environment.started) < UNHEARD_SINCE


def describe_units(verdicts: Iterable[Verdict], runs: Iterable[Record], set_: str) -> str:
    """Return the test set's units with their number, such as 40 voices, or the number of test sets if seeds differ in
    them; "" if neither is known.
    """
    if (sets := len({run.data.hash(set_.partition("/")[0]) for run in runs})) > 1:  # without a condition
        return f"{sets} test sets"
    estimates = (verdict.estimate for verdict in verdicts)
    return next((f"{one.speakers} {one.unit}" for one in estimates if one is not None and one.speakers), "")


def format_deviations(results: Sequence[Result]) -> list[str]:
    """Return the row of a test set; empty if no arm has two seeds."""
    arms = [(name, [one.rate for one in of_arm]) for name, of_arm in group_arms(results) if len(of_arm) > 1]
    if not arms:
        return []
    run, set_ = results[0].run, results[0].comparison.set
    metric = find_metric(results[0].comparison.metric)
    total = run.value(set_, TOTALS.get(metric.name, ""))
    pooled = pooled_deviation([rates for _, rates in arms], 1 / total if total else 0.0)
    deviations = [(float(np.std(rates, ddof=1)), name, len(rates)) for name, rates in arms]
    ordered = sorted(deviation for deviation in deviations if deviation[2] >= FEWEST_SEEDS)
    ends = [f"{metric.text(deviation)} ({name}, {seeds} seeds)" for deviation, name, seeds in ordered] or ["–"]
    name, rates = max(arms, key=lambda arm: len(arm[1]))
    runs = sum(len(rates) for _, rates in arms)
    return [
        label(results, set_),
        f"{run.value(set_, 'utterances') or 0:,.0f}",
        *(str(count) for count in (runs, len(arms), runs - len(arms))),
        f"{metric.text(pooled)} {metric.label}",
        ends[0],
        ends[-1],
        f"{metric.spread(float(np.mean(rates)), float(np.std(rates, ddof=1)))} ({name}, {len(rates)} seeds)",
    ]


def format_prices(results: Sequence[Result]) -> list[list[str]]:
    """Return a row for each arm with enough seeds, if error rates are measured."""
    metric, rows = find_metric(results[0].comparison.metric), []
    for name, of_arm in group_arms(results) if metric.is_rate else ():
        spread = describe(Sample.of_rates(np.array([one.rate for one in of_arm])))
        own_test_sets = len({one.run.data.hash(one.comparison.set) for one in of_arm}) > 1  # answers are about pairs
        if spread.runs < FEWEST_PRICED or spread.deviation is None or own_test_sets:
            continue
        minutes = float(np.mean([processor_seconds(one.run) for one in of_arm])) / 60
        deviations = (spread.deviation.value, spread.deviation.low, spread.deviation.high)
        seeds = [[count(PRICED, one, 0.05) for one in deviations] for count in (seeds_to_find, seeds_to_equal)]
        value, low, high = (metric.text(one) for one in deviations)
        rows.append([
            label(results, results[0].comparison.set),
            name,
            str(spread.runs),
            f"{value} ({low} to {high}) {metric.label}",
            f"{minutes:.1f}",
            *("{} ({} to {})".format(*counts) for counts in seeds),
            *("{:,.0f} ({:,.0f} to {:,.0f})".format(*(2 * minutes * one for one in counts)) for counts in seeds),
        ])  # fmt: skip
    return rows


def processor_seconds(run: Record) -> float:
    """Return the processor time of a run, or its seconds × threads if it was not recorded."""
    estimate = sum(run.summary.seconds.values()) * (run.environment.hardware.threads or 1)
    return run.summary.processor_seconds or estimate


def format_correlations(results: Sequence[Result]) -> list[str]:
    """Return the row of a test set; empty if no two arms of a sweep share enough seeds."""
    correlations = []
    for sweep in group(results, lambda one: one.comparison.title):
        arms = group(sorted(sweep, key=lambda one: one.arm.name), lambda one: one.arm.name)
        for one, other in itertools.combinations(arms, 2):
            rates = [{result.run.seed: result.rate for result in arm} for arm in (one, other)]
            seeds = sorted(rates[0].keys() & rates[1].keys())
            pairs = np.array([[of_arm[seed] for seed in seeds] for of_arm in rates])
            if len(seeds) >= FEWEST_PAIRS and not np.array_equal(*pairs) and pairs.std(axis=1).all():
                names = f"{one[0].comparison.title}: {one[0].arm.name} and {other[0].arm.name}"
                correlations.append((float(np.corrcoef(pairs)[0, 1]), names))
    if not correlations:
        return []
    correlations.sort()
    low, median, high = np.quantile([value for value, _ in correlations], [0.25, 0.5, 0.75])
    ends = [f"{value:+.2f} ({names})" for value, names in (correlations[0], correlations[-1])]
    name = label(results, results[0].comparison.set)
    return [name, str(len(correlations)), f"{median:+.2f}", f"{low:+.2f} to {high:+.2f}", *ends]


def format_ranks(results: Sequence[Result]) -> list[str]:
    """Return the row of runs with comparable losses (Ambroszczyk2019 §2.1); empty for fewer than FEWEST_RUNS."""
    arms = [[(one.loss, one.rate) for one in of_arm] for _, of_arm in group_arms(results)]
    points = [point for arm in arms for point in arm]
    of_runs = format_spearman(points)
    if len(points) < FEWEST_RUNS or of_runs == "–":
        return []
    means = [(float(loss), float(rate)) for loss, rate in (np.mean(arm, axis=0) for arm in arms)]
    within = [spearman(*zip(*arm, strict=True)) for arm in arms if len(arm) >= FEWEST_PAIRS]
    values = [rho.value for rho in within if rho is not None]
    median = f"{np.median(values):+.2f} ({len(values)} arm{'s' if len(values) > 1 else ''})" if values else "–"
    run, comparison = results[0].run, results[0].comparison
    sets = f"{validation_set(run)}, {find_metric(comparison.metric).label} on {comparison.set}"
    return [label(results, sets), str(len(points)), of_runs, str(len(arms)), format_spearman(means), median]


def format_spearman(points: Sequence[tuple[float, float]]) -> str:
    rho = spearman(*zip(*points, strict=True))
    return "–" if rho is None else f"{rho.value:+.2f} ({rho.low:+.2f} to {rho.high:+.2f})"

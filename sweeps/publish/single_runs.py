"""How often tests on single runs call two runs of one recipe different: a section of RESULTS.md, with a figure."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib import rc_context
from numpy.typing import NDArray

from asr_verdicts.arms import Arm
from asr_verdicts.comparison import Comparison
from asr_verdicts.metrics import WER
from asr_verdicts.plotting import LOOK, legend, line, marker, panels, save
from asr_verdicts.report.formats import table
from asr_verdicts.samples import measure_set
from asr_verdicts.statistics.mapsswe import error_places, matched_pairs, segment_differences
from asr_verdicts.statistics.sample import Array, Sample
from asr_verdicts.statistics.seed_noise import pooled_deviation
from publish.noise import label_corpus

LEVEL = 0.05
DRAWS = 2000  # of the bootstrap
PARTS = (8, 4, 2, 1)  # numbers of parts into which the test set is divided, each part with its own units
FEWEST_PAIRS = 20  # pairs of runs that make a row
TESTS = ("MAPSSWE", "bootstrap over utterances", "bootstrap over units")
COLUMNS = ("corpus and set", "epochs", "runs", "pairs", "WER", "deviation", "utterances", "words", *TESTS)
EXPLANATION = (
    "The runs of a pair differ only in their seed, so a test should call {level:.0f} % of the pairs different. The "
    "table has the shares, in %, with 95 % intervals over runs (jackknife). *MAPSSWE* is NIST's matched-pairs test. "
    "The *bootstrap* draws utterances (Bisani & Ney 2004) or the set's sampling units, {draws:,} times. Smaller test "
    "sets are parts of the whole one, and their shares are means over all parts. *Deviation*: over seeds, on the whole "
    "set, pooled over arms."
)

Calls = NDArray[np.float64]
"""For each pair of runs and each test, the share of the parts on which the test calls the runs different."""


class Setting(NamedTuple):
    """What the arms of a row have in common. test_set: its hash."""

    label: str
    test_set: str
    epochs: int


@dataclass(frozen=True)
class Pairs:
    """The runs of an arm, and what the tests say of each pair of them.

    - pairs: indices of the two runs of each pair
    - calls: by the number of parts, as Calls
    """

    sample: Sample
    pairs: list[tuple[int, int]]
    calls: dict[int, Calls]


class Share(NamedTuple):
    """A share of pairs that a test calls different, with its standard error over runs."""

    value: float
    error: float

    def __str__(self) -> str:
        low, high = max(0.0, self.value - 1.96 * self.error), min(1.0, self.value + 1.96 * self.error)
        return f"{100 * self.value:.0f} ({100 * low:.0f} to {100 * high:.0f})"


def format_single_runs(comparisons: Sequence[Comparison], folder: Path) -> list[str]:
    """Return heading and paragraphs of Markdown, and draw the figure below `folder`. Return [] for too few pairs."""
    settings: dict[Setting, list[Pairs]] = {}
    for comparison in comparisons:
        for arm in comparison.arms:
            if (pairs := pair_runs(comparison, arm)) is not None:
                settings.setdefault(describe(comparison, arm, pairs.sample), []).append(pairs)
    enough = [(one, arms) for one, arms in settings.items() if sum(len(arm.pairs) for arm in arms) >= FEWEST_PAIRS]
    settings = dict(sorted(enough, key=lambda setting: setting[0]))
    if not settings:
        return []
    rows = [row for setting, arms in settings.items() for row in format_rows(setting, arms)]
    explanation = EXPLANATION.format(level=100 * LEVEL, draws=DRAWS)
    figure = draw(settings, folder / "figures" / "single_runs")
    return ["## Single runs", explanation, table(COLUMNS, rows), f"![single runs]({figure.relative_to(folder)})"]


def describe(comparison: Comparison, arm: Arm, sample: Sample) -> Setting:
    """Return corpus, set, and number of epochs of an arm's runs."""
    run, units = arm.runs[0], len(np.unique(np.asarray(sample.units)))
    label = f"{label_corpus(run)}: {comparison.set}, {units} {sample.unit}"
    return Setting(label, str(run.data.hash(comparison.set)), run.summary.epochs or 0)


def pair_runs(comparison: Comparison, arm: Arm) -> Pairs | None:
    """Test all pairs of an arm's runs.

    Return None if there are none, if each run has its own test set, or if the arm holds some random streams.
    """
    streams = [seed for run in arm.runs for seed in (run.config.get("seeds") or {}).values() if seed is not None]
    if comparison.metric != WER.name or len(arm.runs) < 2 or arm.diverged or streams:
        return None
    measured = measure_set([arm], arm, comparison.set, WER.name)
    sample = measured.samples[arm.name]
    if sample.errors is None or sample.totals is None or not measured.hypotheses:
        return None
    hypotheses = measured.hypotheses[arm.name]
    places = [list(map(error_places, measured.references, of_run)) for of_run in hypotheses]
    pairs = list(itertools.combinations(range(len(places)), 2))
    segments = [
        [segment_differences([mine], [theirs]) for mine, theirs in zip(places[one], places[other], strict=True)]
        for one, other in pairs
    ]
    calls = {}
    for count in PARTS:
        parts = list(divide(np.asarray(sample.units), count))
        calls[count] = np.mean([judge_part(sample, part, pairs, segments) for part in parts], axis=0)
    return Pairs(sample, pairs, calls)


def divide(units: NDArray[np.str_], count: int) -> Iterator[NDArray[np.intp]]:
    """Yield the indices of the utterances of each of `count` parts, which share no unit."""
    names = np.random.default_rng(0).permutation(np.unique(units))
    for part in np.array_split(names, count):
        yield np.flatnonzero(np.isin(units, part))


def judge_part(
    sample: Sample, part: NDArray[np.intp], pairs: Sequence[tuple[int, int]], segments: Sequence[list[list[float]]]
) -> Calls:
    """Return which pairs each test calls different on some of the utterances, (pairs, tests).

    segments: for each pair and utterance, the differences of its segments.
    """
    assert sample.errors is not None
    assert sample.totals is not None
    first, second = np.array(pairs).T
    chained = [[value for index in part for value in of_pair[index]] for of_pair in segments]
    calls = [np.array([matched_pairs(values).p for values in chained]) < LEVEL]
    errors, totals, units = sample.errors[:, part], sample.totals[part], np.asarray(sample.units)[part]
    for drawn in (np.arange(len(part)), np.unique(units, return_inverse=True)[1]):
        weights = draws(int(drawn.max()) + 1)[:, drawn]
        rates = (weights @ errors.T) / (weights @ totals)[:, None]
        above = (rates[:, first] > rates[:, second]).mean(axis=0)
        below = (rates[:, first] < rates[:, second]).mean(axis=0)
        calls.append(np.maximum(above, below) > 1 - LEVEL / 2)
    return np.array(calls, dtype=float).T


@cache
def draws(count: int) -> Array:
    """Return how often each of `count` things is drawn in each draw of the bootstrap, (DRAWS, count)."""
    return np.random.default_rng(count).multinomial(count, np.full(count, 1 / count), DRAWS).astype(float)


def measure_shares(arms: Sequence[Pairs], parts: int) -> list[Share]:
    """Return the share of each test over the pairs of all arms.

    The standard error leaves out one run after another with all its pairs (jackknife), because pairs share runs.
    """
    calls = np.concatenate([arm.calls[parts] for arm in arms])
    runs = np.concatenate([np.array(arm.pairs) + 1000 * number for number, arm in enumerate(arms)])
    without = np.array([calls[(runs != run).all(axis=1)].mean(axis=0) for run in np.unique(runs)])
    count = len(without)
    errors = np.sqrt((count - 1) / count * ((without - without.mean(axis=0)) ** 2).sum(axis=0))
    return [Share(float(value), float(error)) for value, error in zip(calls.mean(axis=0), errors, strict=True)]


def mean_rate(arms: Sequence[Pairs]) -> str:
    return WER.text(float(np.concatenate([arm.sample.rates for arm in arms]).mean()))


def format_rows(setting: Setting, arms: Sequence[Pairs]) -> Iterator[list[str]]:
    """Yield a row for each size of the test set."""
    rates = [arm.sample.rates for arm in arms]
    deviation = pooled_deviation([of_arm.tolist() for of_arm in rates], arms[0].sample.grain)
    totals = arms[0].sample.totals
    assert totals is not None
    for parts in PARTS:
        shares = map(str, measure_shares(arms, parts))
        yield [
            setting.label,
            str(setting.epochs),
            str(sum(map(len, rates))),
            str(sum(len(arm.pairs) for arm in arms)),
            mean_rate(arms),
            WER.text(deviation),
            f"{len(totals) // parts:,}",
            f"{int(totals.sum()) // parts:,}",
            *shares,
        ]


@rc_context(LOOK)
def draw(settings: dict[Setting, list[Pairs]], folder: Path) -> Path:
    """Draw a panel for each test, with a line for each setting, and return the path of the SVG file."""
    figure, axes = panels(len(TESTS), sharey=True)
    sizes: list[int] = []
    for test, panel in enumerate(axes):
        for number, (setting, arms) in enumerate(settings.items()):
            totals = arms[0].sample.totals
            assert totals is not None
            sizes = [len(totals) // parts for parts in PARTS]
            shares = [100 * measure_shares(arms, parts)[test].value for parts in PARTS]
            name = f"{setting.epochs} epochs, {mean_rate(arms)} % WER"
            panel.plot(sizes, shares, label=name, **{**line(number), **marker(number)})
        panel.axhline(100 * LEVEL, color="black", linewidth=0.8)
        panel.set_xscale("log", base=2)
        panel.set_xticks(sizes, [f"{size:,}" for size in sizes], minor=False)
        panel.set_xlabel("utterances in the test set")
        panel.set_title(TESTS[test])
    axes[0].set_ylabel("pairs called different, %")
    axes[0].set_ylim(bottom=0)
    legend(figure, axes[0])
    folder.mkdir(parents=True, exist_ok=True)
    return save(figure, folder, "shares", ["svg"])[0]

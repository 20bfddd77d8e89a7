"""Whether short runs tell what long ones do: the arms of one sweep beside the same arms, trained longer."""

import math
import sys
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

from asr_ablations.commands.console import exit_code
from asr_ablations.comparison.folders import compare_folders
from asr_ablations.runs.layout import COMPARISON
from asr_verdicts.comparison import Comparison
from asr_verdicts.design import Options
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.files import write, write_json
from asr_verdicts.metrics import find_metric, format_interval
from asr_verdicts.record import Record
from asr_verdicts.report.files import plain
from asr_verdicts.report.formats import body
from asr_verdicts.report.section import Section
from asr_verdicts.report.terminal import print_section
from asr_verdicts.statistics.distributions import t_bound
from asr_verdicts.statistics.intervals import Range
from asr_verdicts.statistics.noise import over_seeds, run_noise
from asr_verdicts.verdict import SHOWN, Verdict

DRAWS = 2000
"""Draws of seeds for the interval of τ."""

OPPOSITE = {"better", "worse"}

Rates = Mapping[str, NDArray[np.float64]]
"""The rates (runs,) of each arm, as fractions."""


@dataclass(frozen=True)
class Transfer:
    """What the order and the differences of short runs say about those of long ones, with 95 % intervals over seeds.

    tau: Kendall's τ-b between the arms' mean rates, the baseline's among them. slope: the long difference from the
    baseline per unit of the short one, by least squares through the origin. kept: of the arms beside the baseline,
    those whose difference has the same sign in both.
    """

    tau: Range
    slope: Range
    kept: int
    arms: int


Pair = tuple[Verdict, Verdict]
"""The verdicts of the short and of the long runs on one arm."""


@dataclass(frozen=True)
class ShortRuns:
    """Two comparisons of the same arms on a set."""

    set: str
    baseline: str
    verdicts: dict[str, Pair]
    transfer: Transfer

    @property
    def shown(self) -> list[Pair]:
        """The arms that short runs call better or worse."""
        return [pair for pair in self.verdicts.values() if pair[0].outcome in SHOWN]

    @property
    def reversed(self) -> list[str]:
        """The arms that are better in one and worse in the other."""
        return [arm for arm, (short, long) in self.verdicts.items() if {short.outcome, long.outcome} == OPPOSITE]


def short_runs(short: Comparison, long: Comparison) -> ShortRuns:
    """Raises UsageError where the two have no arm in common beside the same baseline, or no set."""
    if short.baseline != long.baseline:
        raise choices("the baseline of the long runs", long.baseline, f"{short.baseline}, that of the short ones")
    if short.set != long.set or short.metric != long.metric:
        raise UsageError(
            f"the short runs are compared by {short.metric} on {short.set}, the long ones by {long.metric} on "
            f"{long.set}; expected the same, by --metric and --set"
        )
    later = {verdict.arm: verdict for verdict in long.answer}
    verdicts = {verdict.arm: (verdict, later[verdict.arm]) for verdict in short.answer if verdict.arm in later}
    if not verdicts:
        raise UsageError(f"{short.title} and {long.title} have no arm in common beside the baseline {short.baseline}")
    names = [short.baseline, *verdicts]
    before, after = [
        {arm.name: _rates(arm.results, short.set, short.metric) for arm in comparison.arms if arm.name in names}
        for comparison in (short, long)
    ]
    return ShortRuns(short.set, short.baseline, verdicts, transfer(before, after, short.baseline))


def _rates(runs: Sequence[Record], set_: str, metric: str) -> NDArray[np.float64]:
    """A run that diverged has every word wrong."""
    return np.array([1.0 if run.diverged_at is not None else run.value(set_, metric) for run in runs], dtype=float)


def transfer(short: Rates, long: Rates, baseline: str) -> Transfer:
    """Both have the same arms. The interval of τ has the percentiles over DRAWS in which
    the seeds of each arm are drawn anew, in short and long runs apart; that of the slope is Student's (delta method):
    draws of five seeds held 88 % where they should hold 95. It is nan where an arm has a single run. The arms are those
    that were asked about, and are not drawn.
    """
    arms = [baseline, *(arm for arm in short if arm != baseline)]
    before, after = (np.array([rates[arm].mean() for arm in arms]) for rates in (short, long))
    random = np.random.default_rng(0)
    taus = []
    for _ in range(DRAWS):
        drawn = [
            np.array([random.choice(rates[arm], len(rates[arm])).mean() for arm in arms]) for rates in (short, long)
        ]
        taus.append(_tau(*drawn))
    tau = _tau(before, after)
    return Transfer(
        tau=Range(tau, *map(float, np.nanpercentile(taus, [2.5, 97.5]))),
        slope=_slope(before, after, [rates[arm] for rates in (short, long) for arm in arms]),
        kept=int(np.sum(np.sign(before[1:] - before[0]) == np.sign(after[1:] - after[0]))),
        arms=len(arms) - 1,
    )


def _tau(before: NDArray[np.float64], after: NDArray[np.float64]) -> float:
    return float(kendalltau(before, after).statistic)


def _slope(before: NDArray[np.float64], after: NDArray[np.float64], rates: Sequence[NDArray[np.float64]]) -> Range:
    """From the arms' means (arms,), the baseline's first, in short and in long runs, and the rates (runs,) of each."""
    x, y = before[1:] - before[0], after[1:] - after[0]
    square = float(x @ x)
    if not square:
        return Range(math.nan, math.nan, math.nan)
    slope = float(x @ y) / square
    if min(map(len, rates)) < 2:
        return Range(slope, math.nan, math.nan)
    by_short, by_long = (y - 2 * slope * x) / square, x / square  # what a mean's change does to the slope
    weights = np.array([-by_short.sum(), *by_short, -by_long.sum(), *by_long])
    noise = over_seeds([run_noise(weight * runs) for weight, runs in zip(weights, rates, strict=True)])
    half = t_bound(0.025, noise.degrees) * noise.standard_error
    return Range(slope, slope - half, slope + half)


def short_runs_section(both: ShortRuns) -> Section:
    """A row for each arm with its differences from the baseline, and what they say together."""
    rows = []
    for arm, pair in both.verdicts.items():
        metric = find_metric(pair[0].metric)
        cells = [
            f"{metric.text(one.difference, sign=True)} ({format_interval(one.low, one.high, metric)})" for one in pair
        ]
        rows.append([arm, cells[0], pair[0].outcome, cells[1], pair[1].outcome])
    transfer = both.transfer
    lines = [
        f"{transfer.kept} of {transfer.arms} differences have the same sign in both.",
        f"Kendall's τ between the orders of the arms is {_range(transfer.tau)}; 1 is the same order, 0 is chance.",
        f"A difference of 1 in short runs is {_range(transfer.slope)} in long ones.",
        _verdicts(both),
    ]
    head = ["arm", "short: difference", "verdict", "long: difference", "verdict"]
    return Section(
        f"the same arms in short and in long runs, against {both.baseline}, on {both.set}", head, rows, lines
    )


def _verdicts(both: ShortRuns) -> str:
    shown = both.shown
    again = sum(short.outcome == long.outcome for short, long in shown)
    turned = f"; turned round: {', '.join(both.reversed)}" if both.reversed else "; none is turned round"
    return f"Of {len(shown)} arms that short runs call better or worse, long runs call {again} the same{turned}."


def _range(range_: Range) -> str:
    if math.isnan(range_.low):
        return f"{range_.value:.2f}"
    return f"{range_.value:.2f} ({range_.low:.2f} to {range_.high:.2f})"


def write_short_runs(both: ShortRuns, folder: Path) -> list[Path]:
    """short_runs.md and short_runs.json in a folder; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "short_runs.md", folder / "short_runs.json"]
    write(paths[0], "\n\n".join(body(short_runs_section(both))) + "\n")
    arms = {
        arm: [{name: getattr(one, name) for name in ("difference", "low", "high", "outcome")} for one in pair]
        for arm, pair in both.verdicts.items()
    }
    content = {**asdict(both.transfer), "baseline": both.baseline, "set": both.set, "differences": arms}
    write_json(paths[1], plain(content))
    return paths


def main(arguments: list[str] | None = None) -> int:
    """Print and write what short runs tell of long ones; the exit code, 2 for a mistake of the user's."""
    parser = ArgumentParser(prog="make short-runs", description="Compare short runs with longer ones of the same arms.")
    parser.add_argument("short", type=Path, help="a sweep, such as outputs/short_runs_at_2")
    parser.add_argument("long", type=Path, help="a sweep of the same arms, trained longer: outputs/short_runs")
    options = parser.parse_args(arguments)

    def write_both() -> int:
        both = short_runs(compare_folders([options.short], Options()), compare_folders([options.long], Options()))
        print_section(short_runs_section(both))
        print("wrote", *write_short_runs(both, options.short / COMPARISON), sep="\n  ")
        return 0

    return exit_code(write_both)


if __name__ == "__main__":
    sys.exit(main())

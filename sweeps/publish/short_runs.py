"""Whether short runs tell what long ones do: the arms of a sweep next to the same arms, trained longer."""

import math
import sys
from argparse import ArgumentParser
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

from asr_ablations.commands.console import exit_code
from asr_ablations.comparison.comparison import compare
from asr_ablations.comparison.contrast import SHOWN, Verdict
from asr_ablations.comparison.design import Options
from asr_ablations.comparison.metrics import find_metric
from asr_ablations.comparison.result import Comparison
from asr_ablations.report.formats import body
from asr_ablations.report.section import Section
from asr_ablations.report.tables import interval_text
from asr_ablations.report.terminal import print_section
from asr_ablations.runs.layout import COMPARISON
from asr_ablations.statistics.distributions import t_bound
from asr_ablations.statistics.intervals import Range
from asr_ablations.statistics.noise import over_seeds, run_noise
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.files import write

DRAWS = 2000
"""Draws of seeds for the interval of τ."""

Array = NDArray[np.float64]
Rates = Mapping[str, Array]
"""The rates (runs,) of each arm, as fractions."""


@dataclass(frozen=True)
class Transfer:
    """What the order and the differences of short runs say about long runs, with 95 % intervals over seeds.

    tau: Kendall's τ-b between the mean rates of all arms. slope: the long difference from the baseline per unit of the
    short one, by least squares through the origin. kept: how many of `arms`, which leave out the baseline, have
    differences of the same sign.
    """

    tau: Range
    slope: Range
    kept: int
    arms: int


def pair_verdicts(short: Comparison, long: Comparison) -> dict[str, tuple[Verdict, Verdict]]:
    """Return the verdicts of short and long runs by arm. Raises UsageError if they have no arm or no set in common."""
    for name in ("baseline", "set", "metric"):
        ours, theirs = getattr(short, name), getattr(long, name)
        if ours != theirs:
            raise UsageError(f"the short runs have the {name} {ours}, the long ones {theirs}; expected the same")
    later = {verdict.contrast.arm: verdict for verdict in long.answer}
    arms = {verdict.contrast.arm: verdict for verdict in short.answer if verdict.contrast.arm in later}
    if not arms:
        raise UsageError(f"{short.title} and {long.title} have no arm in common beside the baseline {short.baseline}")
    return {arm: (verdict, later[arm]) for arm, verdict in arms.items()}


def collect_rates(comparison: Comparison) -> dict[str, Array]:
    """Return the rates (runs,) of each arm. A run that diverged has every word wrong."""
    set_, metric = comparison.set, comparison.metric
    return {
        arm.name: np.array(
            [1.0 if run.diverged_at is not None else run.value(set_, metric) for run in arm.results], dtype=float
        )
        for arm in comparison.arms
    }


def measure_transfer(short: Rates, long: Rates, baseline: str) -> Transfer:
    """Compare the arms that both have.

    The interval of τ has the percentiles over DRAWS, in which the seeds of each arm are drawn anew, separately in short
    and long runs. The interval of the slope is Student's (delta method), because draws of five seeds held 88 % instead
    of 95; it is nan if an arm has a single run. The arms are not drawn: they are the ones that were asked about.
    """
    arms = [baseline, *(arm for arm in short if arm != baseline and arm in long)]
    rates = [[side[arm] for arm in arms] for side in (short, long)]
    means = [np.array([runs.mean() for runs in side]) for side in rates]
    random = np.random.default_rng(0)
    taus = []
    for _ in range(DRAWS):
        drawn = [np.array([random.choice(runs, len(runs)).mean() for runs in side]) for side in rates]
        taus.append(float(kendalltau(*drawn).statistic))
    x, y = (side[1:] - side[0] for side in means)
    return Transfer(
        tau=Range(float(kendalltau(*means).statistic), *map(float, np.nanpercentile(taus, [2.5, 97.5]))),
        slope=measure_slope(x, y, [runs for side in rates for runs in side]),
        kept=int(np.sum(np.sign(x) == np.sign(y))),
        arms=len(x),
    )


def measure_slope(x: Array, y: Array, rates: list[Array]) -> Range:
    """x, y: differences (arms,) in short and in long runs; rates: (runs,) of each arm, short then long, the baseline's
    first.
    """
    square = float(x @ x)
    if not square:
        return Range(math.nan, math.nan, math.nan)
    slope = float(x @ y) / square
    if min(map(len, rates)) < 2:
        return Range(slope, math.nan, math.nan)
    by_short, by_long = (y - 2 * slope * x) / square, x / square  # derivatives of the slope by the means
    weights = np.array([-by_short.sum(), *by_short, -by_long.sum(), *by_long])
    noise = over_seeds([run_noise(weight * runs) for weight, runs in zip(weights, rates, strict=True)])
    half = t_bound(0.025, noise.degrees) * noise.standard_error
    return Range(slope, slope - half, slope + half)


def compare_lengths(short: Comparison, long: Comparison) -> Section:
    """Return a row for each arm with its differences from the baseline, and what they say together."""
    pairs = pair_verdicts(short, long)
    transfer = measure_transfer(collect_rates(short), collect_rates(long), short.baseline)
    metric = find_metric(short.metric)
    rows = []
    for arm, pair in pairs.items():
        cells = [f"{metric.text(one.contrast.difference, sign=True)} ({interval_text(one)})" for one in pair]
        rows.append([arm, cells[0], pair[0].outcome, cells[1], pair[1].outcome])
    outcomes = {arm: (before.outcome, after.outcome) for arm, (before, after) in pairs.items()}
    shown = [pair for pair in outcomes.values() if pair[0] in SHOWN]
    again = sum(before == after for before, after in shown)
    reversed_ = [arm for arm, pair in outcomes.items() if set(pair) == {"better", "worse"}]
    turned = f"turned round: {', '.join(reversed_)}" if reversed_ else "none is turned round"
    lines = [
        f"{transfer.kept} of {transfer.arms} differences have the same sign in both.",
        f"Kendall's τ between the orders of the arms is {format_range(transfer.tau)}; 1 is the same order, 0 is chance.",
        f"A difference of 1 in short runs is {format_range(transfer.slope)} in long ones.",
        f"Of {len(shown)} arms that short runs call better or worse, long runs call {again} the same; {turned}.",
    ]
    heading = f"the same arms in short and in long runs, against {short.baseline}, on {short.set}"
    return Section(heading, ["arm", "short: difference", "verdict", "long: difference", "verdict"], rows, lines)


def format_range(range_: Range) -> str:
    interval = "" if math.isnan(range_.low) else f" ({range_.low:.2f} to {range_.high:.2f})"
    return f"{range_.value:.2f}{interval}"


def main(arguments: list[str] | None = None) -> int:
    """Print what short runs tell of long ones and write it into short_runs.md; return the exit code."""
    parser = ArgumentParser(prog="make short-runs", description="Compare short runs with longer ones of the same arms.")
    parser.add_argument("short", type=Path, help="a sweep, such as outputs/short_runs_at_2")
    parser.add_argument("long", type=Path, help="a sweep of the same arms, trained longer: outputs/short_runs")
    options = parser.parse_args(arguments)

    def write_section() -> int:
        section = compare_lengths(compare([options.short], Options()), compare([options.long], Options()))
        print_section(section)
        path = options.short / COMPARISON / "short_runs.md"
        path.parent.mkdir(exist_ok=True)
        write(path, "\n\n".join(body(section)) + "\n")
        print(f"wrote {path}")
        return 0

    return exit_code(write_section)


if __name__ == "__main__":
    sys.exit(main())

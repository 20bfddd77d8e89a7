"""Measure seed noise on a test set in earlier sweeps, and compute the number of seeds that a comparison needs."""

import json
import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from asr_ablations.runs.layout import KEPT_ASIDE, runs_in
from asr_ablations.runs.reader import UnreadableFileError, read_config, read_data, read_environment, read_summary
from asr_ablations.runs.status import fate_of
from asr_ablations.runs.sweep_history import read_plan
from asr_verdicts.config import determining
from asr_verdicts.record import Record
from asr_verdicts.statistics.distributions import fewest, t_bound
from asr_verdicts.statistics.seed_noise import SeedNoise, pooled_deviation


def measure_seed_noise(
    outputs: Path, sha256: str, name: str, metric: str, total: float | None, but: frozenset[Path] = frozenset()
) -> SeedNoise | None:
    """Measure the seed noise of a metric on the test set with hash `sha256`, in all sweeps in the folder `outputs`.

    Only finished runs of arms with two or more seeds are used; None if there are none. Arms that a plan stopped early
    are ignored, because a plan tends to stop arms with little seed noise early. total: number of words or characters in
    the test set, if known. but: sweep folders to ignore.
    """
    arms: dict[str, dict[int, tuple[float, Path]]] = {}
    most: dict[Path, int] = {}
    sweeps = sorted(path for path in outputs.iterdir() if path.is_dir()) if outputs.is_dir() else []
    runs = (run for sweep in sweeps if sweep.resolve() not in but for run in runs_in(sweep))
    for run in (run for run in runs if not KEPT_ASIDE.search(run.name)):
        with suppress(FileNotFoundError, UnreadableFileError, KeyError, TypeError, ValueError):
            data = read_data(run)
            if data.hash(name) != sha256 or fate_of(run).state != "done":
                continue
            if (rate := read_summary(run).value(name, metric)) is None:
                continue
            config = read_config(run)
            arm = content_but_seed(Record(run, config, [], data=data, environment=read_environment(run)))
            if run.parent not in most:
                plan = read_plan(run.parent)
                most[run.parent] = 0 if plan is None else plan.most
            arms.setdefault(arm, {}).setdefault(int(config["seed"]), (rate, run.parent))
    # an arm was stopped early if all its runs belong to planned sweeps, and it has fewer seeds than each plan allows
    allowed = {arm: min(most[sweep] for _, sweep in seeds.values()) for arm, seeds in arms.items()}
    groups = [list(seeds.values()) for arm, seeds in arms.items() if len(seeds) > 1 and len(seeds) >= allowed[arm]]
    if not groups:
        return None
    deviation = pooled_deviation([[rate for rate, _ in group] for group in groups], 1 / total if total else 0.0)
    rates, counted = zip(*(run for group in groups for run in group), strict=True)
    return SeedNoise(deviation, sum(rates) / len(rates), len(rates), len(groups), len({*counted}))


def content_but_seed(run: Record) -> str:
    """Return a string that is the same for all runs that differ only in their seed."""
    same = {key: value for key, value in determining(run.config).items() if key != "seed"}
    return json.dumps([same, run.data.hash("train"), run.environment.behaviour], sort_keys=True)


def planned_looks(most: int) -> tuple[int, ...]:
    """Return the numbers of runs per arm at which a plan looks at the results.

    The numbers are 3, 5, 8, 12, 20, then 1.6 times the previous number, and finally `most`. Numbers between 85 % of
    `most` and `most` are left out.
    """
    looks = [3, 5, 8, 12, 20]
    while looks[-1] < most:
        looks.append(round(1.6 * looks[-1]))
    return (*(runs for runs in looks if runs <= 0.85 * most), most)


MOST_SEEDS = 2**20
"""Maximum number of seeds per arm that may be proposed."""


def seeds_to_find(difference: float, deviation: float, level: float, power: float = 0.8) -> int:
    """Return the number of seeds per arm with which Welch's test detects a true difference with probability `power`.

    deviation: standard deviation over seeds, in the unit of `difference`; level: two-sided significance level of a
    single test. Variation between speakers is ignored.
    """
    return _count_seeds(lambda runs: _reach(runs, deviation, level / 2, 1 - power) <= abs(difference))


def seeds_to_equal(margin: float, deviation: float, level: float, power: float = 0.8) -> int:
    """Return the number of seeds per arm that shows equal arms to be equal within ± margin with probability `power`.

    deviation: standard deviation over seeds, in the unit of `margin`; level: level of each of two one-sided tests
    """
    return _count_seeds(lambda runs: _reach(runs, deviation, level, (1 - power) / 2) <= margin)


def _count_seeds(suffices: Callable[[int], bool]) -> int:
    return fewest(suffices, MOST_SEEDS) or MOST_SEEDS


def _reach(runs: int, deviation: float, tail: float, miss: float) -> float:
    """Return the difference that a test with tail probability `tail` misses with probability `miss`."""
    degrees = 2 * runs - 2
    quantiles = t_bound(tail, degrees) + t_bound(miss, degrees)
    return float(quantiles * deviation * math.sqrt(2 / runs))

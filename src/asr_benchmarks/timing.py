"""Time several variants alternately, so that other work on the machine slows all of them equally."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from asr_ablations.tools.checks import is_number, is_whole, whole
from asr_verdicts.errors import choices
from asr_verdicts.terminal import bar

NOISY = 10.0
"""Spread in % above which a variant is reported as noisy."""

FEWEST = 3
"""Number of measurements after which a variant that has used up its time budget stops."""

Key = TypeVar("Key")


@dataclass(frozen=True)
class Timing:
    """The measured times of one variant in seconds, without warm-up."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """Interquartile range as a percentage of the median. Outliers hardly affect it."""
        if len(self.seconds) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return 100 * (high - low) / self.median

    def row(self) -> dict[str, float]:
        """Return a table row: median, mean and standard deviation in ms, spread in %, and number of measurements."""
        deviation = statistics.stdev(self.seconds) if len(self.seconds) > 1 else 0.0
        milliseconds = {"ms": self.median, "mean ms": statistics.fmean(self.seconds), "sd ms": deviation}
        rounded = {name: 1000 * seconds for name, seconds in milliseconds.items()}
        return {**rounded, "spread %": self.spread, "measurements": float(len(self.seconds))}


def in_turn(
    variants: Mapping[Key, Callable[[], float]],
    *,
    steps: int,
    warmup: int,
    budget: float | None = None,
    title: str = "measuring",
) -> dict[Key, Timing]:
    """Time all variants alternately. Each variant is a function that returns the seconds it took.

    In each variant's results, the first `warmup` calls are ignored and the next `steps` calls count. A variant that
    has spent `budget` seconds skips the rest of its warm-up, and stops after FEWEST measurements.
    """
    check_counts(steps=steps, warmup=warmup)
    if budget is not None and not (is_number(budget) and budget > 0):
        raise choices("benchmark.budget", budget, "seconds, above 0, or null for no limit")
    seconds: dict[Key, list[float]] = {name: [] for name in variants}
    spent, calls, names = dict.fromkeys(variants, 0.0), dict.fromkeys(variants, 0), list(variants)

    def is_over_budget(name: Key) -> bool:
        return budget is not None and spent[name] > budget

    def is_done(name: Key) -> bool:
        return len(seconds[name]) >= (min(FEWEST, steps) if is_over_budget(name) else steps)

    with bar(title, len(names) * (steps + warmup)) as advance:
        while waiting := [name for name in names if not is_done(name)]:
            for name in waiting:
                started = time.perf_counter()
                measured = variants[name]()
                spent[name] += time.perf_counter() - started
                calls[name] += 1
                if calls[name] > warmup or (is_over_budget(name) and calls[name] > 1):
                    seconds[name].append(measured)
                advance(steps + warmup - calls[name] + 1 if is_done(name) else 1)
            names = names[1:] + names[:1]
    return {name: Timing(tuple(measured)) for name, measured in seconds.items()}


def check_counts(least: int = 1, **counts: object) -> None:
    """Raise UsageError unless every count, or every item of a list, is a whole number ≥ `least` (`warmup`: ≥ 0)."""
    for name, value in counts.items():
        if not isinstance(value, list):
            whole(f"benchmark.{name}", value, 0 if name == "warmup" else least)
        elif not value or not all(is_whole(count, least) for count in value):
            raise choices(f"benchmark.{name}", value, f"whole numbers, {least} or more")


def noise_notes(timings: Mapping[str, Timing]) -> list[str]:
    """Return a list with one note on all variants whose spread exceeds NOISY %, or an empty list."""
    noisy = [f"{name} {timing.spread:.0f} %" for name, timing in timings.items() if timing.spread > NOISY]
    limit = f"noisy (interquartile range above {NOISY:g} % of the median)"
    return [f"{limit}: {', '.join(noisy)}"] if noisy else []

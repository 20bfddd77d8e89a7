"""Seconds of several variants, measured in turn, so that what else the machine does meets all of them alike."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from asr_ablations.tools.errors import choices
from asr_ablations.tools.progress_bar import bar

NOISY = 10.0
"""%: a larger spread is told."""

FEWEST = 3
"""Measurements of a variant, also where its time is used up."""


@dataclass(frozen=True)
class Timing:
    """The measured seconds of one variant, warm-up left out."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.seconds)

    @property
    def deviation(self) -> float:
        """Standard deviation; 0 for a single measurement."""
        return statistics.stdev(self.seconds) if len(self.seconds) > 1 else 0.0

    @property
    def spread(self) -> float:
        """The middle half of the measurements over their median, in %: one interruption does not blow it up."""
        if len(self.seconds) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return 100 * (high - low) / self.median

    def row(self) -> dict[str, Any]:
        """Milliseconds, as a table shows them."""
        milliseconds = {"ms": self.median, "mean ms": self.mean, "sd ms": self.deviation}
        rounded = {name: 1000 * seconds for name, seconds in milliseconds.items()}
        return {**rounded, "spread %": self.spread, "measurements": float(len(self.seconds))}


def in_turn(
    variants: Mapping[str, Callable[[], float]],
    *,
    steps: int,
    warmup: int,
    budget: float | None = None,
    block: int = 1,
    title: str = "measuring",
) -> dict[str, Timing]:
    """`warmup` unmeasured and `steps` measured calls of each variant, which gives its own seconds, in blocks of `block`
    calls; who begins changes from round to round. A variant that has spent `budget` seconds, warm-up included, is asked
    no further once it has FEWEST measurements. Only the first of its warm-up calls is sure to be made then.
    """
    check(steps=steps, warmup=warmup, block=block)
    if budget is not None and not budget > 0:
        raise choices("benchmark.budget", budget, "seconds, above 0, or null for no limit")
    turns = {name: _Turns(call, steps, warmup, budget) for name, call in variants.items()}
    names = list(turns)
    with bar(title, len(names) * (steps + warmup)) as advance:
        while waiting := [name for name in names if not turns[name].done]:
            for name in waiting:
                advance(turns[name].take(block))
            names = names[1:] + names[:1]
    return {name: Timing(tuple(turn.seconds)) for name, turn in turns.items()}


def check(**counts: int) -> None:
    """Raises UsageError for a key of a benchmark that is no count; warmup may be 0."""
    for name, value in counts.items():
        least = 0 if name == "warmup" else 1
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise choices(f"benchmark.{name}", value, f"a whole number, {least} or more")


def noise(timings: Mapping[str, Timing]) -> list[str]:
    """A line for the variants that spread by more than NOISY %."""
    noisy = {name: timing.spread for name, timing in timings.items() if timing.spread > NOISY}
    told = ", ".join(f"{name} {spread:.0f} %" for name, spread in noisy.items())
    return [f"noisy, the middle half spreads over more than {NOISY:g} % of the median: {told}"] if noisy else []


class _Turns:
    def __init__(self, call: Callable[[], float], steps: int, warmup: int, budget: float | None) -> None:
        self.call, self.steps, self.warmup, self.budget = call, steps, warmup, budget
        self.seconds: list[float] = []
        self.spent, self.made = 0.0, 0

    @property
    def done(self) -> bool:
        return len(self.seconds) >= (min(FEWEST, self.steps) if self._spent else self.steps)

    @property
    def _spent(self) -> bool:
        return self.budget is not None and self.spent > self.budget

    def take(self, block: int) -> int:
        """One block; how many of the planned calls it settled."""
        before = self.made
        for _ in range(block):
            if self.done:
                break
            started = time.perf_counter()
            took = self.call()
            self.spent += time.perf_counter() - started
            self.made += 1
            if self.made > self.warmup or (self._spent and self.made > 1):
                self.seconds.append(took)
        return self.steps + self.warmup - before if self.done else self.made - before

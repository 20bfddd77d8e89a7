"""Seconds of several variants, measured in turn, so that other work on the machine disturbs all of them alike."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from asr_ablations.tools.checks import is_number, whole
from asr_verdicts.errors import choices
from asr_verdicts.terminal import bar

NOISY = 10.0
"""Spread in %, above which a note warns of the variant."""

FEWEST = 3
"""Measurements that every variant gets, even if its time is used up."""


@dataclass(frozen=True)
class Timing:
    """The measured seconds of one variant, without those of the warm-up."""

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
        """Width of the middle half of the measurements in % of their median. One outlier does not inflate it."""
        if len(self.seconds) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return 100 * (high - low) / self.median

    def row(self) -> dict[str, float]:
        """The columns of a table: milliseconds, the spread in %, and the number of measurements."""
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
    """Call each variant `warmup` times unmeasured and `steps` times measured. A variant returns its own seconds.

    Calls come in blocks of `block` per variant, and each round begins with another variant. A variant that has spent
    `budget` seconds, warm-up included, is not called again once it has FEWEST measurements; of its warm-up only the
    first call is certain then. Raises UsageError for wrong counts and for a budget that is not above 0.
    """
    check_counts(steps=steps, warmup=warmup, block=block)
    if budget is not None and not (is_number(budget) and budget > 0):
        raise choices("benchmark.budget", budget, "seconds, above 0, or null for no limit")
    turns = {name: _Turns(call, steps, warmup, budget) for name, call in variants.items()}
    names = list(turns)
    with bar(title, len(names) * (steps + warmup)) as advance:
        while waiting := [name for name in names if not turns[name].done]:
            for name in waiting:
                advance(turns[name].take(block))
            names = names[1:] + names[:1]
    return {name: Timing(tuple(turn.seconds)) for name, turn in turns.items()}


def check_counts(**counts: object) -> None:
    """Raises UsageError for a key of a benchmark that is not a whole number, 1 or more; warmup may be 0."""
    for name, value in counts.items():
        whole(f"benchmark.{name}", value, 0 if name == "warmup" else 1)


def noise_notes(timings: Mapping[str, Timing]) -> list[str]:
    """A note that names the variants whose spread is above NOISY %, if there are any."""
    noisy = [f"{name} {timing.spread:.0f} %" for name, timing in timings.items() if timing.spread > NOISY]
    limit = f"noisy, the middle half spreads over more than {NOISY:g} % of the median"
    return [f"{limit}: {', '.join(noisy)}"] if noisy else []


class _Turns:
    """The calls of one variant: how many were made, the seconds they took in all, and the measurements."""

    def __init__(self, call: Callable[[], float], steps: int, warmup: int, budget: float | None) -> None:
        self.call, self.steps, self.warmup, self.budget = call, steps, warmup, budget
        self.seconds: list[float] = []
        self.spent, self.calls = 0.0, 0

    @property
    def done(self) -> bool:
        return len(self.seconds) >= (min(FEWEST, self.steps) if self._spent else self.steps)

    @property
    def _spent(self) -> bool:
        return self.budget is not None and self.spent > self.budget

    def take(self, block: int) -> int:
        """Make the calls of one block, and return how many of the planned calls are settled by it."""
        before = self.calls
        for _ in range(block):
            if self.done:
                break
            started = time.perf_counter()
            seconds = self.call()
            self.spent += time.perf_counter() - started
            self.calls += 1
            if self.calls > self.warmup or (self._spent and self.calls > 1):
                self.seconds.append(seconds)
        return self.steps + self.warmup - before if self.done else self.calls - before

"""A sweep that runs until every question has a verdict."""

from collections.abc import Sequence
from dataclasses import dataclass

from asr_ablations.comparison.seeds_needed import planned_looks
from asr_ablations.tools.checks import is_whole, number, switch, whole
from asr_verdicts.errors import choices

DEFAULT_SEEDS = 20
"""The most seeds of an arm if neither seeds, runs nor hours limit them."""
MOST = 10**6
"""Upper bound of seeds, runs and hours."""
FEWEST = 2
"""The fewest seeds of an arm that show their variation."""


@dataclass(frozen=True)
class UntilVerdict:
    """The plan of a sweep from the config; conf/until/verdict.yaml describes the keys.

    margin: in points, or in percent of the rate, such as 5%. Raises UsageError for values out of range.
    """

    margin: float | str | None
    seeds: int | None
    runs: int | None
    hours: float | None
    looks: Sequence[int] | None
    alpha: float
    gamma: float
    robust: bool
    paired: bool
    hopeless: float
    share: bool
    retries: int

    def __post_init__(self) -> None:
        if self.margin is not None and not str(self.margin).endswith("%"):
            number("until.margin", self.margin, above=0, most=100)
        for key, least in (("seeds", FEWEST), ("runs", 1)):
            if (value := getattr(self, key)) is not None:
                whole(f"until.{key}", value, least, MOST, also="null")
        if self.hours is not None:
            number("until.hours", self.hours, above=0, most=MOST, also="null")
        number("until.alpha", self.alpha, above=0, below=0.5)
        number("until.gamma", self.gamma, least=-20, most=20)
        number("until.hopeless", self.hopeless, least=0, below=1)
        whole("until.retries", self.retries, 0, MOST)
        for key in ("robust", "paired", "share"):
            switch(f"until.{key}", getattr(self, key))
        if self.looks is not None and not _increases(self.looks):
            expected = f"increasing whole numbers from {FEWEST} on, such as [3,5,8,12,20], or null"
            raise choices("until.looks", self.looks, expected)

    def stated_margin(self) -> float | str:
        """Return the margin as it was typed; raises UsageError if it is missing."""
        if self.margin is None:
            raise choices(
                "until.margin", None, "the difference that would not matter: 2.0 for 2 points of WER, or 5% of the rate"
            )
        return self.margin

    def most_seeds(self, arms: int, hours_per_run: float | None) -> int:
        """Return the most seeds of an arm that seeds, runs and hours all allow. hours_per_run: the mean over the arms,
        None to ignore a budget in hours. Raises UsageError if the budget is too small for any verdict.
        """
        limits: dict[str, tuple[float | None, int | None]] = {"until.seeds": (self.seeds, self.seeds)}
        limits["until.runs"] = (self.runs, None if self.runs is None else self.runs // arms)
        if self.hours is not None and hours_per_run is not None:
            limits["until.hours"] = (self.hours, int(self.hours / (arms * hours_per_run)))
        given = {key: (value, seeds) for key, (value, seeds) in limits.items() if seeds is not None}
        for key, (value, seeds) in given.items():
            if seeds < FEWEST:
                raise choices(key, value, f"enough for {FEWEST} seeds of each of {arms} arms")
        most = self.looks[-1] if self.looks is not None else DEFAULT_SEEDS
        return min((seeds for _, seeds in given.values()), default=most)

    def look_seeds(self, most: int) -> list[int]:
        """List the seeds of each arm at each look. Raises UsageError if a look needs more than `most`."""
        if self.looks is None:
            return list(planned_looks(most))
        if self.looks[-1] > most:
            raise choices("until.looks", list(self.looks), f"at most {most} seeds per arm, because of the budget")
        return list(self.looks)


def _increases(looks: object) -> bool:
    if not isinstance(looks, (list, tuple)) or not all(is_whole(seeds, FEWEST) for seeds in looks):
        return False
    return bool(looks) and sorted({*looks}) == list(looks)

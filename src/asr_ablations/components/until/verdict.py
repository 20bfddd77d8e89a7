"""The settings of a sweep that adds seeds until every question has a verdict."""

from collections.abc import Sequence
from dataclasses import dataclass

from asr_ablations.comparison.seed_noise import planned_looks
from asr_ablations.tools.checks import is_whole, number, switch, whole
from asr_verdicts.errors import choices

DEFAULT_SEEDS = 20
"""Maximum number of seeds per arm if seeds, runs, hours and looks are all unset."""
MOST = 10**6
"""Maximum value of each of the settings seeds, runs, hours and retries."""
FEWEST = 2
"""Minimum number of seeds per arm, because one seed shows no variation."""


@dataclass(frozen=True)
class UntilVerdict:
    """The settings of a sweep with until=verdict; conf/until/verdict.yaml describes the keys.

    margin: number of percentage points (nats for the loss), or a string such as "5%" for a share of the error rate.
    Such a string is checked only when the plan is made. Raises UsageError for other values out of range.
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
        looks = self.looks
        are_whole = isinstance(looks, (list, tuple)) and all(is_whole(seeds, FEWEST) for seeds in looks)
        if looks is not None and not (are_whole and looks and sorted({*looks}) == list(looks)):
            expected = f"increasing whole numbers from {FEWEST} on, such as [3,5,8,12,20], or null"
            raise choices("until.looks", looks, expected)

    def stated_margin(self) -> float | str:
        """Return the margin as the user typed it. Raises UsageError if it is missing."""
        if self.margin is None:
            raise choices(
                "until.margin", None, "the difference that would not matter: 2.0 for 2 points of WER, or 5% of the rate"
            )
        return self.margin

    def most_seeds(self, arms: int, hours_per_run: float | None) -> int:
        """Return the largest number of seeds per arm that the limits `seeds`, `runs` and `hours` all allow.

        hours_per_run: mean duration of a run in hours, or None to ignore `hours`. Raises UsageError if the limits
        are too small for any verdict.
        """
        limits = {"seeds": self.seeds, "runs": None if self.runs is None else self.runs // arms}
        if self.hours is not None and hours_per_run is not None:
            limits["hours"] = int(self.hours / (arms * hours_per_run))
        given = {key: seeds for key, seeds in limits.items() if seeds is not None}
        for key, seeds in given.items():
            if seeds < FEWEST:
                raise choices(f"until.{key}", getattr(self, key), f"enough for {FEWEST} seeds of each of {arms} arms")
        return min(given.values(), default=DEFAULT_SEEDS if self.looks is None else self.looks[-1])

    def look_seeds(self, most: int) -> list[int]:
        """Return the number of seeds per arm at each planned look. Raises UsageError if a look exceeds `most`."""
        if self.looks is None:
            return list(planned_looks(most))
        if self.looks[-1] > most:
            raise choices("until.looks", list(self.looks), f"at most {most} seeds per arm, because of the budget")
        return list(self.looks)

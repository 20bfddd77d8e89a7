"""Find failed runs, which diverged or ended with a far higher error rate than other runs of their arm."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import median
from typing import Literal

from asr_verdicts.arms import Arm
from asr_verdicts.errors import UsageError
from asr_verdicts.record import Record
from asr_verdicts.statistics.seed_noise import TOTALS

MEDIANS = 1.5  # by default, a run counts as failed above this multiple of its arm's median error rate
# To count as failed, a run must also exceed the median number of errors by this many Poisson standard deviations.
# Otherwise many runs would count as failed below 1 % WER, where they often exceed 1.5 times the median by chance.
DEVIATIONS = 4


@dataclass(frozen=True)
class FailureRule:
    """A rule that decides which runs count as failed. Diverged runs always do.

    above: error rate above which a run counts as failed, as a multiple of its arm's median or as a fraction
    """

    kind: Literal["median", "rate", "diverged"] = "median"
    above: float = MEDIANS

    @classmethod
    def parse(cls, value: object) -> "FailureRule":
        """Parse `ablation.failed`: diverged, {median: 1.5}, or {rate: 50} (percent). Raises UsageError if invalid."""
        if value is None:
            return cls()
        if value == "diverged":
            return DIVERGED
        if isinstance(value, Mapping) and len(value) == 1:
            (kind, above), *_ = value.items()
            if isinstance(above, (int, float)) and not isinstance(above, bool):
                if kind == "median" and above > 1:
                    return cls("median", float(above))
                if kind == "rate" and 0 < above <= 100:
                    return cls("rate", above / 100)
        raise UsageError(
            f"ablation.failed={value}: expected diverged, {{median: 1.5}} (times the arm's median), or {{rate: 50}} (%)"
        )

    def failed(self, arm: Arm, set_: str, metric: str) -> list[Record]:
        """Return the failed runs of an arm on a test set, sorted by seed."""
        rates = {id(run): rate for run in arm.runs if (rate := run.value(set_, metric)) is not None}
        bound = float("inf")
        if self.kind == "rate":
            bound = self.above
        elif self.kind == "median" and rates:
            typical = median(rates.values())
            total = arm.runs[0].value(set_, TOTALS.get(metric, ""))
            bound = max(self.above * typical, typical + DEVIATIONS * sqrt(typical / total) if total else 0.0)
        return [run for run in arm.results if run.diverged_at is not None or rates.get(id(run), 0.0) > bound]

    @property
    def text(self) -> str:
        """The rule in words, for reports."""
        if self.kind == "diverged":
            return "diverged"
        if self.kind == "rate":
            return f"diverged or ended above {100 * self.above:g} %"
        return f"diverged or ended above {self.above:g} times the median of its arm"


DEFAULT, DIVERGED = FailureRule(), FailureRule("diverged", 0.0)


def counts_text(arms: Sequence[tuple[str, int, int]], verb: str) -> str:
    """Describe how many runs of each arm failed, with exact 95 % intervals (Clopper & Pearson 1934).

    - arms: name, number of failed runs and number of all runs of each arm
    - verb: failed or diverged
    """
    # imported here because scipy is slow to import, and checking a sweep before it starts does not need it
    from asr_verdicts.statistics.distributions import binomial_interval

    texts: list[str] = []
    for name, failed, runs in arms:
        low, high = binomial_interval(failed, runs)
        of_arm, level = ("of", "") if texts else ("runs of", "95 % interval ")
        failures = f"{failed} of {runs} {of_arm} {name}{'' if texts else f' {verb}'}"
        texts.append(f"{failures} ({level}{100 * low:.0f} to {100 * high:.0f} %)")
    return " and ".join(texts)

"""Failed runs: those that diverged, and those that ended far above the other runs of their arm."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import median
from typing import Literal

from asr_verdicts.arms import Arm
from asr_verdicts.errors import UsageError
from asr_verdicts.record import Record
from asr_verdicts.statistics.seed_noise import TOTALS

MEDIANS = 1.5  # multiple of the arm's median above which a run counts as failed, by default
# A failed run also exceeds the median number of errors by this many Poisson deviations. Below 1 % WER, 1.5 times as
# many errors are common by chance.
DEVIATIONS = 4


@dataclass(frozen=True)
class FailureRule:
    """The rule by which a run counts as failed although it did not diverge.

    above: a multiple of the median of the arm's finished runs, or an error rate as a fraction
    """

    kind: Literal["median", "rate", "diverged"] = "median"
    above: float = MEDIANS

    @classmethod
    def parse(cls, value: object) -> "FailureRule":
        """Read `ablation.failed`: diverged, {median: 1.5}, or {rate: 50} in percent. Raises UsageError otherwise."""
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
        """Return the failed runs of an arm, in the order of seeds."""
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
        """The rule in words for reports."""
        if self.kind == "diverged":
            return "diverged"
        if self.kind == "rate":
            return f"diverged or ended above {100 * self.above:g} %"
        return f"diverged or ended above {self.above:g} times the median of its arm"


DEFAULT, DIVERGED = FailureRule(), FailureRule("diverged", 0.0)


def counts_text(arms: Sequence[tuple[str, int, int]], verb: str) -> str:
    """Describe the failed runs of each arm with Clopper and Pearson's exact 95 % interval (1934).

    - arms: name, number of failed runs, and number of all runs of each arm
    - verb: failed or diverged
    """
    # imports scipy, which a sweep's check does not need
    from asr_verdicts.statistics.distributions import binomial_interval

    texts: list[str] = []
    for name, failed, runs in arms:
        low, high = binomial_interval(failed, runs)
        of_arm, level = ("of", "") if texts else ("runs of", "95 % interval ")
        failures = f"{failed} of {runs} {of_arm} {name}{'' if texts else f' {verb}'}"
        texts.append(f"{failures} ({level}{100 * low:.0f} to {100 * high:.0f} %)")
    return " and ".join(texts)

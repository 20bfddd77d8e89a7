"""Choose the statistical test for a comparison according to how often its results have been looked at."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from asr_verdicts.errors import UsageError
from asr_verdicts.record import ONE_SYSTEM, SYSTEM, Record, Records
from asr_verdicts.statistics.alpha_spending import GroupSequential
from asr_verdicts.statistics.procedures import ANYTIME, ASSUMED, FixedLength, Procedure
from asr_verdicts.statistics.seed_noise import SeedNoise


class History(Protocol):
    """Information from other sweeps: their variation between seeds, and which of them share given runs."""

    def seed_noise(self, like: Record, set_: str, metric: str) -> SeedNoise | None:
        """Return the variation between seeds in other sweeps on this test set of the run `like`; None if unknown."""

    def sweeps_with(self, runs: Sequence[Record]) -> list[str]:
        """Return the names of other sweeps that share any of these runs."""


class NoHistory:
    """A history without earlier sweeps."""

    def seed_noise(self, like: Record, set_: str, metric: str) -> SeedNoise | None:
        return None

    def sweeps_with(self, runs: Sequence[Record]) -> list[str]:
        return []


NO_HISTORY = NoHistory()


@dataclass(frozen=True)
class Evidence:
    """The statistical test for a comparison, and the reason for choosing it, in words.

    - look: number of times that the results have been looked at, including this time
    - complete: whether no further runs are expected
    """

    procedure: Procedure
    reason: str
    look: int = 1
    complete: bool = False
    history: History = NO_HISTORY

    @property
    def describing(self) -> Procedure:
        """The test for sets without planned looks (interim analyses): anytime-valid if another set has looks."""
        return ANYTIME if isinstance(self.procedure, GroupSequential) else self.procedure


UNDECLARED = Evidence(ANYTIME, "the number of seeds was not declared before the runs")


def evidence_of_systems(records: Records, seeds: int | None, *, looks: bool) -> Evidence:
    """Choose the test for systems that are given by their hypotheses.

    - seeds: number of seeds per arm, if it was fixed before any result was seen
    - looks: whether seeds are added after looking at results

    Raises UsageError if both options are given, or if an arm has more or fewer than `seeds` seeds.
    """
    if looks:
        if seeds is not None:
            raise UsageError(
                f"--seeds {seeds} --looks: expected one of them: seeds are either fixed beforehand or added after looks"
            )
        return Evidence(ANYTIME, "seeds may be added after every look (--looks)")
    counts = Counter(str(run.config[SYSTEM]) for run in records.runs)
    if seeds is not None:
        if other := [f"{name} has {count}" for name, count in counts.items() if count != seeds]:
            raise UsageError(f"--seeds {seeds}: expected {seeds} files of each arm; {', '.join(other)}")
        return Evidence(FixedLength(), f"{seeds} seed{'s' * (seeds != 1)} per arm (--seeds)", complete=True)
    if all(run.model == ONE_SYSTEM for run in records.runs):
        return Evidence(FixedLength(test="Student's t"), "one training per system", complete=True)
    number = " and ".join(map(str, sorted(set(counts.values()))))
    reason = f"{number} seed{'s' * (number != '1')} per arm; confirm it by --seeds {number}, or deny it by --looks"
    return Evidence(ASSUMED, reason, complete=True)

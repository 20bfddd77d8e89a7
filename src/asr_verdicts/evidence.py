"""The evidence of a comparison: how often its runs were looked at, and the test that this allows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from asr_verdicts.errors import UsageError
from asr_verdicts.record import ONE_SYSTEM, SYSTEM, Record, Records
from asr_verdicts.statistics.alpha_spending import GroupSequential
from asr_verdicts.statistics.procedures import ANYTIME, ASSUMED, FixedLength, Procedure
from asr_verdicts.statistics.seed_noise import SeedNoise


class History(Protocol):
    """Earlier sweeps on the same data, or with the same runs."""

    def seed_noise(self, like: Record, set_: str, metric: str) -> SeedNoise | None:
        """The noise of seeds on the test set of `like`; None if no earlier sweep was tested on it."""

    def sweeps_with(self, runs: Sequence[Record]) -> list[str]:
        """The names of other sweeps that share one of these runs."""


class NoHistory:
    """A history without any sweep."""

    def seed_noise(self, like: Record, set_: str, metric: str) -> SeedNoise | None:
        return None

    def sweeps_with(self, runs: Sequence[Record]) -> list[str]:
        return []


NO_HISTORY = NoHistory()


@dataclass(frozen=True)
class Evidence:
    """The test of a comparison, and the reason for it in a sentence.

    look: the number of this look at the runs, from 1; complete: whether these are all the declared runs.
    """

    procedure: Procedure
    reason: str
    look: int = 1
    complete: bool = False
    history: History = NO_HISTORY

    @property
    def describing(self) -> Procedure:
        """The test on sets that only describe: looks are planned for the deciding set alone."""
        return ANYTIME if isinstance(self.procedure, GroupSequential) else self.procedure


UNDECLARED = Evidence(ANYTIME, "the number of seeds was not declared before the runs")


def evidence_of_systems(records: Records, seeds: int | None, *, looks: bool) -> Evidence:
    """The evidence of systems given by their hypotheses.

    seeds: per arm, if fixed before the first result; looks: seeds are added after looking at results. Raises UsageError
    for another number of seeds.
    """
    if looks:
        if seeds is not None:
            raise UsageError(
                f"--seeds {seeds} --looks: expected one of them, because the number was fixed beforehand or was not"
            )
        return Evidence(ANYTIME, "seeds may be added after every look (--looks)")
    counts: dict[str, int] = {}
    for run in records.runs:
        name = str(run.config[SYSTEM])
        counts[name] = counts.get(name, 0) + 1
    if seeds is not None:
        if other := [f"{name} has {count}" for name, count in counts.items() if count != seeds]:
            raise UsageError(f"--seeds {seeds}: expected {seeds} files of each arm; {', '.join(other)}")
        return Evidence(FixedLength(), f"{seeds} seeds per arm (--seeds)", complete=True)
    if all(run.model == ONE_SYSTEM for run in records.runs):
        return Evidence(FixedLength(test="Student's t"), "one training per system", complete=True)
    number = " and ".join(map(str, sorted(set(counts.values()))))
    reason = f"{number} seeds per arm; confirm it by --seeds {number}, or deny it by --looks"
    return Evidence(ASSUMED, reason, complete=True)

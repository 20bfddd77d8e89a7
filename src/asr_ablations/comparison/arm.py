"""An arm of a comparison."""

from dataclasses import dataclass, field

from asr_ablations.runs.record import RunRecord
from asr_ablations.runs.records import Unfinished


@dataclass(frozen=True)
class Arm:
    """A choice of the factor, run with one or more seeds.

    runs: the finished ones; diverged: those whose loss was no number, which are results too: a WER of 100 %; absent:
    the runs of the arm without a result. levels: its choices by key or group.
    """

    name: str
    runs: list[RunRecord]
    diverged: list[RunRecord] = field(default_factory=list)
    absent: list[Unfinished] = field(default_factory=list)
    levels: dict[str, str] = field(default_factory=dict)

    @property
    def results(self) -> list[RunRecord]:
        """Finished and diverged runs, in the order of seeds."""
        return sorted([*self.runs, *self.diverged], key=lambda run: run.seed)

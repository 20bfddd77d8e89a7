"""The runs that count as evidence, the number of looks at them, and the test that this allows."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from asr_ablations.comparison.arms import Arm
from asr_ablations.comparison.contrast import Contrast
from asr_ablations.runs.layout import EVALUATIONS
from asr_ablations.runs.record import ONE_SYSTEM, SYSTEM
from asr_ablations.runs.records import Records
from asr_ablations.runs.sweep_history import Look, declared, evidence, looks, record_look
from asr_ablations.statistics.alpha_spending import GroupSequential
from asr_ablations.statistics.power import Anytime, FixedLength, Procedure
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.machine import iso


@dataclass(frozen=True)
class Evidence:
    """The test of a comparison and why it is this one, in a sentence; look: this one's number, counted from 1.

    folder: where looks are recorded, None for nowhere; runs: hash of the results seen; complete: whether they are
    all that was declared.
    """

    procedure: Procedure
    reason: str
    look: int = 1
    folder: Path | None = None
    runs: str = ""
    complete: bool = False

    @property
    def test(self) -> str:
        """The test in words."""
        return TESTS[self.procedure.name]


TESTS = {
    FixedLength.name: "Student's t at a number of runs that was declared",
    "assumed": "Student's t, which is right if the number of seeds was fixed beforehand",
    Anytime.name: "Intervals that hold however often one looks",
    GroupSequential.name: "Student's t at looks that were planned",
}

ANYTIME = Anytime(phi=0.25)
"""Narrowest at about 3 to 10 runs of an arm: ± 7.2 standard errors with three runs of each of two arms, 4.0 with five,
3.5 with ten, 3.3 with twenty.
"""
UNDECLARED = Evidence(ANYTIME, "the number of seeds was not declared before the runs")


def gather(folders: Sequence[Path], records: Records) -> Evidence:
    """The evidence in folders. The fixed-length test is for a sweep whose first launch named all its runs, where they
    all have ended, no other was added, and no look came before. Everything else can be looked at whenever somebody
    likes, and gets the interval that holds however often they do.

    Raises UnreadableFileError for a damaged record of looks.
    """
    models = sorted({run.model for run in [*records.runs, *records.diverged]})
    folder = folders[0]
    seen = evidence(models)
    before = [look for look in looks(folder) if look.runs != seen]
    number = len({look.runs for look in before}) + 1
    planned = _declared_runs(folders, models)
    if planned is not None:
        return Evidence(ANYTIME, planned, number, folder, seen)
    if before:  # of a sweep, at a part of its runs; of evaluations, at other models
        reason = f"there were earlier looks, at other runs ({number - 1})"
        return Evidence(ANYTIME, reason, number, folder, seen, complete=True)
    return Evidence(FixedLength(), "all runs that were declared have ended", number, folder, seen, complete=True)


def _declared_runs(folders: Sequence[Path], models: Sequence[str]) -> str | None:
    """The reason why the results differ from the declaration; None if they agree. Evaluations add no trained model:
    those that there are were there before the first evaluation.
    """
    if all(folder.name == EVALUATIONS for folder in folders):
        return None
    if len(folders) > 1:
        return "several folders were put together"
    wanted = declared(folders[0])
    if wanted is None:
        return UNDECLARED.reason
    ids = {model.partition("/")[0] for model in models}
    if ids - wanted:
        return "runs were added after the first launch"
    missing = len(wanted - ids)
    return f"{missing} of {len(wanted)} declared runs have not ended" if missing else None


def of_systems(records: Records, seeds: int | None, *, looks: bool) -> Evidence:
    """The evidence of systems that were given by their hypotheses. seeds: of each arm, if they were decided before the
    first result; looks: seeds are added after looks at the results. Raises UsageError for another number of seeds.
    """
    if looks:
        if seeds is not None:
            raise UsageError(
                f"--seeds {seeds} --looks: expected one of them: the number was fixed beforehand, or was not"
            )
        return Evidence(ANYTIME, "seeds may be added after every look (--looks)")
    counts: dict[str, int] = {}
    for run in records.runs:
        name = str(run.config[SYSTEM])
        counts[name] = counts.get(name, 0) + 1
    if seeds is not None:
        if other := [f"{name} has {count}" for name, count in counts.items() if count != seeds]:
            raise UsageError(f"--seeds {seeds}: expected so many files of each arm; {', '.join(other)}")
        return Evidence(FixedLength(), f"{seeds} seeds of each arm, as decided before (--seeds)", complete=True)
    if all(run.model == ONE_SYSTEM for run in records.runs):
        return Evidence(FixedLength(), "one system of each arm, on a test set that was there before", complete=True)
    found = " and ".join(map(str, sorted(set(counts.values()))))
    reason = f"{found} seeds of each arm; --seeds {found} says that this was decided before, --looks that it was not"
    return Evidence(FixedLength("assumed"), reason, complete=True)


def shared_baseline(folder: Path, baseline: Arm) -> str | None:
    """A warning where other sweeps beside this one have runs of the same baseline: what is lucky in them is lucky in
    all of these sweeps, so that their errors go together. None where no other has.
    """
    own = {run.folder.name for run in baseline.results}
    sweeps = [path for path in sorted(folder.resolve().parent.iterdir()) if path.is_dir() and path != folder.resolve()]
    sharing = [path.name for path in sweeps if any((path / name).exists() for name in own)]
    if not sharing:
        return None
    named = ", ".join(sharing[:3]) + (f" and {len(sharing) - 3} more" if len(sharing) > 3 else "")
    return (
        f"runs of the baseline {baseline.name} are shared with {len(sharing)} other sweep{'s' * (len(sharing) > 1)} "
        f"({named}): a lucky baseline is lucky in each, so their errors go together"
    )


def keep_look(found: Evidence, arms: Sequence[Arm], baseline: str, contrasts: Sequence[Contrast]) -> str | None:
    """Record this look where verdicts were shown; a warning where that is not possible."""
    if found.folder is None or not any(contrast.p is not None for contrast in contrasts):
        return None
    look = Look(
        when=iso(time.time()),
        arms={arm.name: len(arm.results) for arm in arms},
        runs=found.runs,
        complete=found.complete,
        baseline=baseline,
        metric=contrasts[0].metric,
        set=contrasts[0].set,
        procedure=found.procedure.name,
    )
    return record_look(found.folder, look)

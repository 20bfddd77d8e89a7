"""Comparison of the runs in folders, with evidence from earlier sweeps, and the record of each look."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from asr_ablations.comparison.arm_differences import differences_of_arms
from asr_ablations.comparison.layouts import lay_out
from asr_ablations.comparison.time_to_accuracy import untimed_warnings
from asr_ablations.runs.layout import EVALUATIONS
from asr_ablations.runs.records import load
from asr_ablations.runs.seed_noise import seed_noise
from asr_ablations.runs.sweep_history import Look, declared, evidence, looks, read_plan, record_look
from asr_ablations.tools.machine import iso
from asr_verdicts.comparison import Comparison, compare
from asr_verdicts.design import Options
from asr_verdicts.evidence import UNDECLARED, Evidence
from asr_verdicts.record import Record, Records
from asr_verdicts.statistics.procedures import ANYTIME, FIXED
from asr_verdicts.statistics.seed_noise import SeedNoise


@dataclass(frozen=True)
class SweepsBeside:
    """The other sweeps in the same outputs folder. sweep: the folder being compared."""

    sweep: Path

    def seed_noise(self, like: Record, set_: str, metric: str) -> SeedNoise | None:
        return seed_noise(self.sweep.resolve().parent, like, set_, metric)

    def sweeps_with(self, runs: Sequence[Record]) -> list[str]:
        names = {run.folder.name for run in runs}
        compared = self.sweep.resolve()
        sweeps = [path for path in sorted(compared.parent.iterdir()) if path.is_dir() and path != compared]
        return [path.name for path in sweeps if any((path / name).exists() for name in names)]


def compare_folders(folders: Sequence[Path], options: Options) -> Comparison:
    """Compare the runs in folders, and record the look.

    Raises ConfoundedError if the runs differ in more than the factor, and UsageError for impossible requests.
    """
    records = load(folders)
    title = " ".join(folder.resolve().name for folder in folders)
    plan = read_plan(folders[0]) if len(folders) == 1 else None
    seen = evidence(_list_models(records))
    comparison = compare(records, options, title, gather(folders, records), lay_out(records, options, plan))
    return with_warnings(comparison, [] if comparison.course.sets else _keep_look(folders[0], seen, comparison))


def with_warnings(comparison: Comparison, more: Sequence[str] = ()) -> Comparison:
    """Add warnings about training to a comparison, and further ones."""
    differences = differences_of_arms(comparison.design, comparison.arms)
    proposals = [difference.proposal for difference in differences if difference.proposal]
    return replace(comparison, warnings=[*comparison.warnings, *proposals, *untimed_warnings(comparison), *more])


def _list_models(records: Records) -> list[str]:
    return sorted({run.model for run in [*records.runs, *records.diverged]})


def gather(folders: Sequence[Path], records: Records) -> Evidence:
    """Collect the evidence in folders.

    The fixed-length test is used if a sweep's first launch declared all its runs, all of them have ended, none was
    added, and this is the first look. In all other cases users may look at any time, and get an interval that stays
    valid for any number of looks. Raises UnreadableFileError for a damaged record of looks.
    """
    models, folder = _list_models(records), folders[0]
    history = SweepsBeside(folder)
    seen = evidence(models)
    earlier_looks = [look for look in looks(folder) if look.runs != seen]
    number = len({look.runs for look in earlier_looks}) + 1
    planned = _compare_with_declaration(folders, models)
    if planned is not None:
        return Evidence(ANYTIME, planned, number, history=history)
    if earlier_looks:  # for a sweep, a look at a part of its runs; for evaluations, at other models
        reason = f"there were earlier looks, at other runs ({number - 1})"
        return Evidence(ANYTIME, reason, number, complete=True, history=history)
    return Evidence(FIXED, "all declared runs have ended", number, complete=True, history=history)


def _compare_with_declaration(folders: Sequence[Path], models: Sequence[str]) -> str | None:
    """Return how the runs differ from the declaration; None if they agree. Evaluations do not add trained models, so
    these existed before the first evaluation.
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


def _keep_look(folder: Path, seen: str, comparison: Comparison) -> list[str]:
    """Record this look if verdicts were shown; return a warning if that fails."""
    if all(verdict.p is None for verdict in comparison.verdicts):
        return []
    first = comparison.verdicts[0]
    look = Look(
        when=iso(time.time()),
        arms={arm.name: len(arm.results) for arm in comparison.arms},
        runs=seen,
        complete=comparison.evidence.complete,
        baseline=comparison.baseline,
        metric=first.metric,
        set=first.set,
        procedure=comparison.evidence.procedure.name,
    )
    return list(filter(None, [record_look(folder, look)]))

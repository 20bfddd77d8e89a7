"""Compare the runs in folders: group them into arms, assess the evidence, and record each look at the results."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from asr_ablations.comparison.arm_differences import differences_of_arms
from asr_ablations.comparison.seed_noise import measure_seed_noise
from asr_ablations.comparison.time_to_accuracy import untimed_warnings
from asr_ablations.runs.layout import EVALUATIONS
from asr_ablations.runs.listed_arms import find_extra_keys, listed_arms
from asr_ablations.runs.records import load
from asr_ablations.runs.sweep_history import Look, arm_content, declared, evidence, looks, read_plan, record_look
from asr_ablations.tools.machine import iso
from asr_verdicts.arms import Arm, Choice, find_baseline, group
from asr_verdicts.comparison import Comparison, compare
from asr_verdicts.config import OWN, Config, flatten, within
from asr_verdicts.confounds import derived, differing_beyond_seeds, references
from asr_verdicts.declaration import declaration
from asr_verdicts.design import Layout, Options, fill_layout, find_or_check_factor
from asr_verdicts.evidence import UNDECLARED, Evidence
from asr_verdicts.plan import VerdictPlan
from asr_verdicts.record import AnyRun, Record, Records
from asr_verdicts.statistics.procedures import ANYTIME, FIXED
from asr_verdicts.statistics.seed_noise import TOTALS, SeedNoise


def compare_folders(folders: Sequence[Path], options: Options) -> Comparison:
    """Compare the runs in folders, and record that the user looked at the results.

    Raises ConfoundedError if the runs differ in more than the factor, and UsageError for impossible requests.
    """
    records = load(folders)
    title = " ".join(folder.resolve().name for folder in folders)
    plan = read_plan(folders[0]) if len(folders) == 1 else None
    comparison = compare(records, options, title, gather(folders, records), lay_out(records, options, plan))
    return with_warnings(comparison, [] if comparison.course.sets else _record_look(folders[0], records, comparison))


def with_warnings(comparison: Comparison, more: Sequence[str] = ()) -> Comparison:
    """Add the warnings in `more`, and warnings about baselines and missing times, to a comparison."""
    differences = differences_of_arms(comparison.design, comparison.arms)
    proposals = [difference.proposal for difference in differences if difference.proposal]
    return replace(comparison, warnings=[*comparison.warnings, *proposals, *untimed_warnings(comparison), *more])


def lay_out(records: Records, options: Options, plan: VerdictPlan | None) -> Layout[Arm] | None:
    """Group runs into the arms of a plan or list. Without either, return None: a factor then defines the arms."""
    if plan is not None:
        return _lay_out_plan(records, plan)
    runs = [*records.runs, *records.diverged]
    if (layout := lay_out_list(runs, options)) is None:
        return None
    names = {arm.levels[OWN] for arm in layout.arms}
    others = [run.folder.name for run in runs if run.config.get(OWN) not in names]
    left_out = [f"left out {name}: it does not belong to any listed arm" for name in others]
    return fill_layout(layout, records.unfinished, left_out)


def planned_arms(plan: VerdictPlan, records: Records) -> tuple[list[Arm], list[str]]:
    """Return a plan's arms with their runs sorted by seed, and warnings about runs outside the plan."""
    arms, taken = [], set()
    results = [*records.runs, *records.diverged]
    for planned in plan.arms:
        seeds: dict[int, Record] = {}
        for run in results:
            if run.seed in plan.seeds and not run.searched and _belongs(run.config, planned.content, plan):
                seeds.setdefault(run.seed, run)
        chosen = [run for _, run in sorted(seeds.items())]
        finished = [run for run in chosen if run.diverged_at is None]
        diverged = [run for run in chosen if run.diverged_at is not None]
        absent = [run for run in records.unfinished if run.config and _belongs(run.config, planned.content, plan)]
        taken |= {id(run) for run in [*chosen, *absent]}
        arms.append(Arm(planned.name, finished, diverged, absent, planned.levels))
    others = [run.folder.name for run in results if id(run) not in taken]
    others += [run.folder.name for run in records.unfinished if id(run) not in taken]
    names = ", ".join(others[:3]) + (f" and {len(others) - 3} more" if len(others) > 3 else "")
    return arms, [f"left out of the comparison, because the plan does not include them: {names}"] if others else []


def _belongs(config: Config, content: Config, plan: VerdictPlan) -> bool:
    """Return whether a run with this config belongs to the planned arm with this content.

    Keys that were added to conf/ after the plan was made are ignored, unless the run's overrides set them.
    """
    actual, planned = flatten(arm_content(config, plan.belongs)), flatten(content)
    typed = [str(override).partition("=")[0].lstrip("+~") for override in config.get("overrides") or []]
    return {key: value for key, value in actual.items() if key in planned or within(key, typed)} == planned


def lay_out_list(runs: Sequence[AnyRun], options: Options) -> Layout[Choice[AnyRun]] | None:
    """Group runs into the arms that their sweep lists; None if the sweep does not list arms.

    Raises ConfoundedError if an arm differs from the baseline in more keys than the list changes.
    """
    if not (listed := listed_arms(runs)):
        return None
    declared, names = declaration(runs), [arm.name for arm in listed]
    runs = [run for run in runs if run.config.get(OWN) in names]
    differ, factor = differing_beyond_seeds(runs), [OWN, *declared.factor]
    keys = [key for arm in listed for key in arm.keys]
    grouped = group(runs, factor, list(differ), [*keys, *derived(keys, references(runs))])
    arms = sorted(grouped, key=lambda arm: names.index(arm.levels[OWN]))
    unchanged = [arm.name for arm in listed if not arm.changes]
    default = declared.baseline or next((arm.name for arm in arms if arm.levels[OWN] in unchanged), arms[0].name)
    reference = find_baseline(str(options.baseline or default), arms)
    overruled = find_extra_keys(arms, reference, listed, declared.factor, options.allow)
    texts = {arm.name: arm.text for arm in listed}
    changes = {arm.name: texts[arm.levels[OWN]] for arm in arms}
    return Layout(declared, factor, differ, overruled, arms, default, changes=changes)


def _lay_out_plan(records: Records, plan: VerdictPlan) -> Layout[Arm]:
    """Group runs into the arms of a plan. For listed arms, the plan also contains their changes."""
    arms, warnings = planned_arms(plan, records)
    runs = [run for arm in arms for run in arm.results]
    declared = declaration(runs)
    if plan.listed:
        factor = [OWN, *declared.factor]
        differ = differing_beyond_seeds(runs)
        return Layout(declared, factor, differ, {}, arms, plan.baseline, warnings, plan.listed, plan)
    differ, factor, overruled = find_or_check_factor(runs, declared, [])
    return Layout(declared, factor, differ, overruled, arms, declared.baseline, warnings, plan=plan)


@dataclass(frozen=True)
class SweepsBeside:
    """The other sweeps in the same outputs folder as a compared sweep. sweep: the compared sweep's folder."""

    sweep: Path

    def seed_noise(self, like: Record, set_: str, metric: str) -> SeedNoise | None:
        """Measure the seed noise of a metric in the other sweeps, on a test set of run `like`; None if unknown."""
        if (sha256 := like.data.hash(set_)) is None:
            return None
        total, folder = like.value(set_, TOTALS.get(metric, "")), like.folder.resolve()
        but = frozenset({folder, *folder.parents})
        return measure_seed_noise(self.sweep.resolve().parent, sha256, set_, metric, total, but)

    def sweeps_with(self, runs: Sequence[Record]) -> list[str]:
        names = {run.folder.name for run in runs}
        compared = self.sweep.resolve()
        sweeps = [path for path in sorted(compared.parent.iterdir()) if path.is_dir() and path != compared]
        return [path.name for path in sweeps if any((path / name).exists() for name in names)]


def gather(folders: Sequence[Path], records: Records) -> Evidence:
    """Decide which statistical test the runs in folders allow.

    It is the fixed-length test if a sweep's first launch declared all its runs, all of them have ended, no runs were
    added, and this is the first look. Otherwise the user may have looked at any time, so the interval must be valid for
    any number of looks. Raises UnreadableFileError if the record of looks is damaged.
    """
    models, folder = _list_models(records), folders[0]
    history = SweepsBeside(folder)
    seen = evidence(models)
    earlier_looks = [look for look in looks(folder) if look.runs != seen]
    number = len({look.runs for look in earlier_looks}) + 1
    planned = _compare_with_declaration(folders, models)
    if planned is not None:
        return Evidence(ANYTIME, planned, number, history=history)
    if earlier_looks:  # earlier looks saw only some runs of the sweep, or evaluations of other models
        reason = f"there were earlier looks, at other runs ({number - 1})"
        return Evidence(ANYTIME, reason, number, complete=True, history=history)
    return Evidence(FIXED, "all declared runs have ended", number, complete=True, history=history)


def _list_models(records: Records) -> list[str]:
    return sorted({run.model for run in [*records.runs, *records.diverged]})


def _compare_with_declaration(folders: Sequence[Path], models: Sequence[str]) -> str | None:
    """Return how the runs differ from the runs that the sweep's first launch declared; None if they do not differ.

    The number of models to evaluate may follow looks at their sweep's own test sets, whose errors are much the same.
    """
    ids = {model.partition("/")[0] for model in models}
    if all(folder.name == EVALUATIONS for folder in folders):
        sweeps = {folder.absolute().parents[1] for folder in folders}
        added = ids.difference(*(declared(sweep) or ids for sweep in sweeps)) or any(map(read_plan, sweeps))
        return "models were added after the first launch of their sweep" if added else None
    if len(folders) > 1:
        return "the runs come from several folders"
    wanted = declared(folders[0])
    if wanted is None:
        return UNDECLARED.reason
    if ids - wanted:
        return "runs were added after the first launch"
    missing = len(wanted - ids)
    return f"{missing} of {len(wanted)} declared runs have not ended" if missing else None


def _record_look(folder: Path, records: Records, comparison: Comparison) -> list[str]:
    """Record a look at the results if any verdict has a p-value. Return a warning if the look cannot be recorded."""
    if all(verdict.p is None for verdict in comparison.verdicts):
        return []
    first = comparison.verdicts[0]
    look = Look(
        when=iso(time.time()),
        arms={arm.name: len(arm.results) for arm in comparison.arms},
        runs=evidence(_list_models(records)),
        complete=comparison.evidence.complete,
        baseline=comparison.baseline,
        metric=first.metric,
        set=first.set,
        procedure=comparison.evidence.procedure.name,
    )
    return list(filter(None, [record_look(folder, look)]))

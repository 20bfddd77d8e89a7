"""The runs of a sweep as arms of its list or plan."""

from collections.abc import Sequence

from asr_ablations.runs.listed_arms import find_arm_name, find_extra_keys, listed_arms
from asr_ablations.runs.sweep_history import arm_content
from asr_verdicts.arms import Arm, Choice, find_baseline, group
from asr_verdicts.config import OWN, Config, flatten, within
from asr_verdicts.confounds import derived, references
from asr_verdicts.declaration import declaration
from asr_verdicts.design import Layout, Options, differing_beyond_seeds, fill_layout, find_or_check_factor
from asr_verdicts.plan import VerdictPlan
from asr_verdicts.record import AnyRun, Record, Records


def lay_out(records: Records, options: Options, plan: VerdictPlan | None) -> Layout[Arm] | None:
    """Return the arms of a plan or list; None without either, because arms are then the choices of the factor."""
    if plan is not None:
        return _lay_out_plan(records, plan)
    runs = [*records.runs, *records.diverged]
    if (layout := lay_out_list(runs, options)) is None:
        return None
    names = {arm.levels[OWN] for arm in layout.arms}
    others = [run.folder.name for run in runs if find_arm_name(run.config) not in names]
    left_out = [f"{name}: no run of an arm in the list, left out" for name in others]
    return fill_layout(layout, records.unfinished, left_out)


def planned_arms(plan: VerdictPlan, records: Records) -> tuple[list[Arm], list[str]]:
    """Return a plan's arms with runs in seed order, and warnings about runs outside the plan."""
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
    return arms, [f"{names}: no run of the plan, left out"] if others else []


def _belongs(config: Config, content: Config, plan: VerdictPlan) -> bool:
    """Return whether a run belongs to the arm with this content. Keys added to configs after the plan was made are
    ignored, unless the run's overrides set them.
    """
    actual, planned = flatten(arm_content(config, plan.belongs)), flatten(content)
    typed = [str(override).partition("=")[0].lstrip("+~") for override in config.get("overrides") or []]
    return {key: value for key, value in actual.items() if key in planned or within(key, typed)} == planned


def lay_out_list(runs: Sequence[AnyRun], options: Options) -> Layout[Choice[AnyRun]] | None:
    """Return the arms of a list, which may differ in their listed changes; None for runs without a list.

    Raises ConfoundedError for an arm that differs in more keys.
    """
    if not (listed := listed_arms(runs)):
        return None
    declared, names = declaration(runs), [arm.name for arm in listed]
    runs = [run for run in runs if find_arm_name(run.config) in names]
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
    """Return a plan's arms. Arms from a list keep the changes recorded in the plan."""
    arms, warnings = planned_arms(plan, records)
    runs = [run for arm in arms for run in arm.results]
    declared = declaration(runs)
    if plan.listed:
        factor = [OWN, *declared.factor]
        differ = differing_beyond_seeds(runs)
        return Layout(declared, factor, differ, {}, arms, plan.baseline, warnings, plan.listed, plan)
    differ, factor, overruled = find_or_check_factor(runs, declared, [])
    return Layout(declared, factor, differ, overruled, arms, declared.baseline, warnings, plan=plan)

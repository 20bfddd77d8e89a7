"""The runs of a sweep file as arms: of a list, or of a plan."""

from collections.abc import Sequence

from asr_ablations.runs.listed_arms import (
    ListedArm,
    beyond_the_list,
    changes_of,
    default_baseline,
    explained,
    in_order,
    keys_of_lists,
    listed_arms,
    of_the_list,
)
from asr_verdicts.arms import Arm, find_baseline, group
from asr_verdicts.config import OWN, Config, flatten, within
from asr_verdicts.declaration import declaration
from asr_verdicts.design import Layout, Options, differing_beyond_seeds, find_or_check_factor
from asr_verdicts.plan import VerdictPlan, arm_content
from asr_verdicts.record import Record, Records, Unfinished


def lay_out(records: Records, options: Options, plan: VerdictPlan | None) -> Layout | None:
    """The arms that a plan or a list names; None for a sweep with neither, whose arms are the choices of its factor."""
    if plan is not None:
        return _planned(records, plan)
    listed = listed_arms([*records.runs, *records.diverged])
    return _listed(records, listed, options) if listed else None


def planned_arms(plan: VerdictPlan, records: Records) -> tuple[list[Arm], list[str]]:
    """The arms of the plan with their runs in the order of seeds, and warnings about runs that are not the plan's."""
    arms, taken = [], set()
    for planned in plan.arms:
        mine = [run for run in [*records.runs, *records.diverged] if _belongs(run.config, planned.content, plan)]
        seeds: dict[int, Record] = {}
        for run in mine:
            if run.seed in plan.seeds and not run.searched:
                seeds.setdefault(run.seed, run)
        kept = [seeds[seed] for seed in sorted(seeds)]
        absent = [run for run in records.unfinished if run.config and _belongs(run.config, planned.content, plan)]
        taken |= {id(run) for run in [*kept, *absent]}
        arms.append(
            Arm(
                planned.name,
                [run for run in kept if run.diverged_at is None],
                [run for run in kept if run.diverged_at is not None],
                absent,
                planned.levels,
            )
        )
    rest: list[Record | Unfinished] = [*records.runs, *records.diverged, *records.unfinished]
    others = [run.folder.name for run in rest if id(run) not in taken]
    names = ", ".join(others[:3]) + (f" and {len(others) - 3} more" if len(others) > 3 else "")
    return arms, [f"{names}: no run of the plan, left out"] if others else []


def _belongs(config: Config, content: Config, plan: VerdictPlan) -> bool:
    """True if a run is of the arm with this content. A key that came into the configs after the plan was made has no
    say, unless the run's own overrides set it.
    """
    own, planned = flatten(arm_content(config, plan.belongs)), flatten(content)
    typed = [str(override).partition("=")[0].lstrip("+~") for override in config.get("overrides") or []]
    return {key: value for key, value in own.items() if key in planned or within(key, typed)} == planned


def _listed(records: Records, listed: Sequence[ListedArm], options: Options) -> Layout:
    """The arms of a list, each of which may differ in what it changes."""
    declared = declaration([*records.runs, *records.diverged])
    records, left_out = of_the_list(records, listed)
    runs = [*records.runs, *records.diverged]
    differ, factor = differing_beyond_seeds(runs), [OWN, *declared.factor]
    arms, warnings = group(records, factor, list(differ), explained(listed, runs))
    arms = in_order(arms, listed)
    default = declared.baseline or default_baseline(arms, listed)
    reference = find_baseline(str(options.baseline or default), arms)
    overruled = beyond_the_list(arms, reference, listed, declared.factor, options.allow)
    warnings = [*left_out, *warnings]
    return Layout(
        declared, factor, differ, overruled, arms, warnings, default, changes_of(arms, listed), *keys_of_lists(arms)
    )


def _planned(records: Records, plan: VerdictPlan) -> Layout:
    """The arms of a plan. Those of a list differ as they did when the plan was made."""
    arms, warnings = planned_arms(plan, records)
    runs = [run for arm in arms for run in arm.results]
    declared = declaration(runs)
    if plan.listed:
        factor = [OWN, *declared.factor]
        differ, keys = differing_beyond_seeds(runs), keys_of_lists(arms)
        return Layout(declared, factor, differ, {}, arms, warnings, plan.baseline, plan.listed, *keys, plan)
    differ, factor, overruled = find_or_check_factor(runs, declared, [])
    return Layout(declared, factor, differ, overruled, arms, warnings, declared.baseline, plan=plan)

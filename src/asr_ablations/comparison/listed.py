"""Arms that a sweep lists, each with what it changes: that and nothing else may differ from the baseline."""

from collections.abc import Sequence
from dataclasses import replace

from asr_ablations.comparison.arm import Arm
from asr_ablations.comparison.confounds import (
    ConfoundedError,
    Differing,
    confounds,
    derived,
    differing,
    replicated,
    within,
)
from asr_ablations.runs.listed_arms import LIST, OWN, ListedArm, arm_of, merged
from asr_ablations.runs.record import RunRecord
from asr_ablations.runs.records import Records


def listed_arms(runs: Sequence[RunRecord]) -> list[ListedArm]:
    """The list that the runs were made from; empty where there was none. Raises UsageError for lists that contradict
    each other.
    """
    return merged(run.config[LIST] for run in runs if run.config.get(LIST))


def of_the_list(records: Records, listed: Sequence[ListedArm]) -> tuple[Records, list[str]]:
    """The records of the listed arms, and warnings about the others."""
    names = [arm.name for arm in listed]
    others = [run.folder.name for run in [*records.runs, *records.diverged] if arm_of(run.config) not in names]
    kept = replace(
        records,
        runs=[run for run in records.runs if arm_of(run.config) in names],
        diverged=[run for run in records.diverged if arm_of(run.config) in names],
    )
    return kept, [f"{name}: no run of an arm in the list, left out" for name in others]


def explained(listed: Sequence[ListedArm]) -> list[str]:
    """The keys that some arm changes, and those that follow from them."""
    keys = [key for arm in listed for key in arm.keys]
    return [*dict.fromkeys([*keys, *sorted(derived(keys))])]


def in_order(arms: Sequence[Arm], listed: Sequence[ListedArm]) -> list[Arm]:
    """The arms in the order of the list."""
    names = [arm.name for arm in listed]
    return sorted(arms, key=lambda arm: names.index(arm.levels[OWN]))


def default_baseline(arms: Sequence[Arm], listed: Sequence[ListedArm]) -> str:
    """The name of the arm that changes nothing, else of the first one."""
    unchanged = [entry.name for entry in listed if not entry.changes]
    return next((arm.name for arm in arms if arm.levels[OWN] in unchanged), arms[0].name)


def changes_of(arms: Sequence[Arm], listed: Sequence[ListedArm]) -> dict[str, str]:
    """What each arm changes, as text, by its name."""
    texts = {entry.name: entry.text for entry in listed}
    return {arm.name: texts[arm.levels[OWN]] for arm in arms}


def beyond_the_list(
    arms: Sequence[Arm], baseline: Arm, listed: Sequence[ListedArm], factor: Sequence[str], allowed: Sequence[str]
) -> Differing:
    """The keys in which an arm differs from the baseline beyond what the two change, all of them allowed.

    factor: keys in which all arms may differ. Raises ConfoundedError, with the arm, for others.
    """
    changes = {entry.name: entry.keys for entry in listed}
    of_seeds = replicated([run for arm in arms for run in arm.results])
    overruled: Differing = {}
    for arm in [baseline, *(arm for arm in arms if arm is not baseline)]:
        runs = [*baseline.results, *(arm.results if arm is not baseline else [])]
        name, other = arm.levels[OWN], baseline.levels[OWN]
        own = [*changes[other], *changes[name], *factor]
        beyond = confounds(runs, [*own, *of_seeds], differing(runs))
        refused = {key: values for key, values in beyond.items() if not within(key, allowed)}
        if refused:
            raise ConfoundedError([], refused, _reason(name, other, changes[name]))
        overruled |= beyond
    return overruled


def _reason(name: str, baseline: str, changes: Sequence[str]) -> str:
    if name == baseline:
        return f"the runs of the arm {name} differ:"
    declared = ", ".join(changes) or "nothing"
    return f"the arm {name} differs from {baseline} in more than it changes by the list ({declared}):"

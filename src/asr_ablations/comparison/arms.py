"""Runs grouped into arms, and names for them."""

import json
import re
from collections.abc import Sequence
from typing import Any

from asr_ablations.comparison.confounds import FINGERPRINT, content, shown, within
from asr_ablations.comparison.result import Arm
from asr_ablations.runs.record import RunRecord
from asr_ablations.tools.errors import UsageError


def group(runs: Sequence[RunRecord], factor: Sequence[str], differing: Sequence[str]) -> tuple[list[Arm], list[str]]:
    """Arms in the order of their first run, seeds in order; runs of the same choice and seed count once, which the
    warnings tell. Runs that differ in an allowed key are different arms.
    """
    keys = [key for key in differing if not within(key, [FINGERPRINT])]
    by_choice: dict[str, list[RunRecord]] = {}
    for run in runs:
        leaves = content(run)
        by_choice.setdefault(json.dumps([leaves.get(key) for key in keys]), []).append(run)
    names = _names([group_[0] for group_ in by_choice.values()], factor, keys)
    warnings: list[str] = []
    arms = []
    for name, members in zip(names, by_choice.values(), strict=True):
        seeds: dict[int, RunRecord] = {}
        for run in members:
            if run.seed in seeds:
                warnings.append(f"{name}, seed {run.seed}: there are two runs; {run.folder} is left out")
            seeds.setdefault(run.seed, run)
        arms.append(Arm(name, [seeds[seed] for seed in sorted(seeds)]))
    return arms, warnings


def find_arm(name: str, arms: Sequence[Arm]) -> Arm | None:
    """The arm of a name as users write it; None where none or several are meant. `0.2` is dropout=0.2, and `lstm` is
    also "lstm, batch.size=8" where that is the only LSTM.
    """
    for same in (
        lambda arm: arm.name == name,
        lambda arm: arm.name.endswith(f"={name}") and ", " not in arm.name,
        lambda arm: arm.name.split(", ")[0] == name,
    ):
        if len(found := [arm for arm in arms if same(arm)]) == 1:
            return found[0]
    return None


def find_baseline(name: str, arms: Sequence[Arm]) -> Arm:
    """As find_arm; raises UsageError with the choices."""
    if (found := find_arm(name, arms)) is None:
        raise UsageError(f"baseline={name}: expected {' or '.join(arm.name for arm in arms)}")
    return found


def _names(runs: Sequence[RunRecord], factor: Sequence[str], keys: Sequence[str]) -> list[str]:
    """Short where that tells the arms apart, with all that differs where not."""
    roots = list(dict.fromkeys([*factor, *(key for key in keys if not within(key, factor) and _own(key, factor))]))
    short = [", ".join(_choice(run, root) for root in roots) or "all" for run in runs]
    if len(set(short)) == len(short):
        return short
    leaves = [content(run) for run in runs]
    plain = [key for key in keys if not key.endswith("_target_")]
    return [
        ", ".join([name, *(f"{key}={shown(one[key])}" for key in plain if key in one)])
        for name, one in zip(short, leaves, strict=True)
    ]


def _own(key: str, factor: Sequence[str]) -> bool:
    """Whether a key beyond the factor is one that was allowed, not one that follows from it."""
    from asr_ablations.comparison.confounds import derived

    return not within(key, derived(factor))


def _choice(run: RunRecord, root: str) -> str:
    """A group's option as the user named it or as its class is, `key=value` for a plain key."""
    node: Any = run.config
    for part in root.split("."):
        node = node.get(part) if isinstance(node, dict) else None
    if not isinstance(node, dict):
        return f"{root}={shown(content(run).get(root, node))}"
    asked = [o.partition("=")[2] for o in run.overrides if o.lstrip("+").startswith(f"{root}=")]
    if asked and re.fullmatch(r"[\w.-]+", asked[-1]):
        return asked[-1]
    target = str(node.get("_target_", root)).split(".")
    return target[-2] if target[0] == "asr_ablations" and len(target) > 2 else target[-1].lower()

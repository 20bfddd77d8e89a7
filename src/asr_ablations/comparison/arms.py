"""Runs grouped into arms, and names for the arms."""

import json
import re
from collections.abc import Callable, Sequence

from asr_ablations.comparison.confounds import FINGERPRINT, content, derived, value_text, within
from asr_ablations.comparison.result import Arm
from asr_ablations.runs.record import RunRecord
from asr_ablations.tools.errors import UsageError


def group(runs: Sequence[RunRecord], factor: Sequence[str], differing: Sequence[str]) -> tuple[list[Arm], list[str]]:
    """Arms in the order of their first run with their runs in the order of seeds, and warnings.

    Runs that differ in a key that was allowed are different arms. Of several runs with the same choice and seed the
    first counts, and a warning names the others.
    """
    keys = [key for key in differing if not within(key, [FINGERPRINT])]
    by_choice: dict[str, list[RunRecord]] = {}
    for run in runs:
        leaves = content(run)
        by_choice.setdefault(json.dumps([leaves.get(key) for key in keys]), []).append(run)
    names = _names([members[0] for members in by_choice.values()], factor, keys)
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
    """The arm that a user means by a name; None where the name fits no arm or several.

    `0.2` is dropout=0.2, and `lstm` is also "lstm, batch.size=8" where that is the only LSTM.
    """
    readings: tuple[Callable[[Arm], bool], ...] = (
        lambda arm: arm.name == name,
        lambda arm: arm.name.endswith(f"={name}") and ", " not in arm.name,
        lambda arm: arm.name.split(", ")[0] == name,
    )
    for fits in readings:
        matches = [arm for arm in arms if fits(arm)]
        if len(matches) == 1:
            return matches[0]
    return None


def find_baseline(name: str, arms: Sequence[Arm]) -> Arm:
    """The baseline that a user means by a name, as find_arm reads it. Raises UsageError with the choices."""
    baseline = find_arm(name, arms)
    if baseline is None:
        raise UsageError(f"baseline={name}: expected {' or '.join(arm.name for arm in arms)}")
    return baseline


def _names(runs: Sequence[RunRecord], factor: Sequence[str], keys: Sequence[str]) -> list[str]:
    """Names with the factor alone where these are different, else with every key that differs."""
    differing = [*factor, *(key for key in keys if not within(key, [*factor, *derived(factor)]))]
    # the seed is the factor of a sweep that asks what chance does: its runs are one arm
    roots = [root for root in dict.fromkeys(differing) if root != "seed"]
    short = [", ".join(_choice(run, root) for root in roots) or "all" for run in runs]
    if len(set(short)) == len(short):
        return short
    plain = [key for key in keys if not key.endswith("_target_")]
    names = []
    for name, run in zip(short, runs, strict=True):
        leaves = content(run)
        names.append(", ".join([name, *(f"{key}={value_text(leaves[key])}" for key in plain if key in leaves)]))
    return names


def _choice(run: RunRecord, root: str) -> str:
    """The option of a group as the user named it, else by its class; `key=value` for a plain key."""
    node: object = run.config
    for part in root.split("."):
        node = node.get(part) if isinstance(node, dict) else None
    if not isinstance(node, dict):
        return f"{root}={value_text(content(run).get(root, node))}"
    typed = [line.partition("=")[2] for line in run.overrides if line.lstrip("+").startswith(f"{root}=")]
    if typed and re.fullmatch(r"[\w.-]+", typed[-1]):
        return typed[-1]
    target = str(node.get("_target_", root)).split(".")
    return target[-2] if target[0] == "asr_ablations" and len(target) > 2 else target[-1].lower()

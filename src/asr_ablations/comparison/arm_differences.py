"""The keys in which each arm differs from its baseline, and arms that would be better baselines.

An arm is named after the typed overrides, such as `gradient=noise`, although its option may set more keys. Here it also
sets clipping, which is another arm's whole difference. The effect of the noise is then the difference to that arm.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from asr_ablations.runs.listed_arms import collect_listed_keys
from asr_verdicts.arms import Arm, is_search
from asr_verdicts.config import LIST, OWN, Config, leaves, within
from asr_verdicts.confounds import MISSING, References, derived, references, value_text
from asr_verdicts.record import SYSTEM

if TYPE_CHECKING:  # imports scipy, which a sweep does not need at its start
    from asr_verdicts.design import Design

TARGET = "_target_"
"""Last part of keys that name a class, which is the choice itself."""

SOURCE = "_source_"
"""Last part of keys with the source hash of a user's class, which follows from the class."""

Keys = dict[str, tuple[object, object]]
"""Values of the arm and the baseline by dotted key; MISSING if one lacks the key."""


@dataclass(frozen=True)
class ArmDifference:
    """keys: all that differ, without keys derived from others. unsaid: keys not mentioned in the arm's name. better:
    arms whose whole difference is part of this one's, largest first.
    """

    arm: str
    baseline: str
    keys: Keys
    unsaid: list[str]
    better: list[str]

    @property
    def text(self) -> str:
        """Such as "gradient=noise: gradient.limit 1.0 for null, gradient.variance 1e-06 for none"."""
        return f"{self.arm}: {keys_text(self.keys)}"

    @property
    def proposal(self) -> str | None:
        """Propose a better baseline; None if there is none."""
        if not self.better:
            return None
        return (
            f"{self.arm} differs from {self.baseline} in every key that {self.better[0]} changes, and in more "
            f"({keys_text(self.keys)}). To measure only these, compare it with {self.better[0]} "
            f"(ablation.baseline: {self.better[0]})"
        )


def keys_text(keys: Keys) -> str:
    """Return the values of arm and baseline; for a class its name, or its source if the names are equal. If an option
    is null on one side, the class on the other side is shown.
    """
    parts = []
    for key, values in keys.items():
        parent, _, last = key.rpartition(".")
        if f"{key}.{TARGET}" in keys or (last == SOURCE and f"{parent}.{TARGET}" in keys):
            continue
        label = {SOURCE: f"source of {parent}", TARGET: parent}.get(last, key)
        new, base = (_format_value(value, last) for value in values)
        parts.append(f"{label} {new} for {base}")
    return ", ".join(parts) or "nothing"


def _format_value(value: object, last: str) -> str:
    """Format a value of a key with this last part: a class by its name, a source by the beginning of its hash."""
    if isinstance(value, str):
        value = {SOURCE: value[:8], TARGET: value.rpartition(".")[2]}.get(last, value)
    return "none" if value is MISSING else value_text(value)


def arm_differences(
    configs: Mapping[str, Config],
    baseline: str,
    factor: Sequence[str],
    derivations: References,
) -> list[ArmDifference]:
    """Return the difference of every arm except the baseline. configs: a resolved config per arm. derivations: keys
    that follow from others. Two crossed factors need no better baseline, because their effects are separated.
    """
    said, varied = collect_listed_keys(configs)
    whole = {name: leaves(config) for name, config in configs.items()}
    follows = derived([*factor, *varied], derivations)
    differ = {name: _diff(content, whole[baseline], follows) for name, content in whole.items() if name != baseline}
    return [
        ArmDifference(
            arm=name,
            baseline=baseline,
            keys=keys,
            unsaid=_find_unsaid(keys, [*factor, *said.get(name, [])]),
            better=[] if len(factor) > 1 else _find_contained(name, differ),
        )
        for name, keys in differ.items()
    ]


def differences_of_arms(design: "Design", arms: Sequence[Arm]) -> list[ArmDifference]:
    """Return the differences of a comparison's arms that have results.

    Empty for a search, whose runs have a separate table, and for systems, whose configs are unknown.
    """
    if design.baseline not in arms or is_search(arms) or design.layout.factor == [SYSTEM]:
        return []
    configs = {arm.name: arm.results[0].config for arm in arms}
    derivations = references([run for arm in arms for run in arm.results])
    return arm_differences(configs, design.baseline.name, design.layout.factor, derivations)


def _diff(arm: Mapping[str, object], base: Mapping[str, object], follows: set[str]) -> Keys:
    keys = {key: (arm.get(key, MISSING), base.get(key, MISSING)) for key in dict.fromkeys([*base, *arm])}
    return {
        key: (new, other)
        for key, (new, other) in keys.items()
        if new != other and not within(key, [LIST, OWN, *follows])
    }


def _names_class(key: str) -> bool:
    """Return whether a key names a class, or only depends on the class."""
    return key.rpartition(".")[2].startswith("_")


def _find_contained(name: str, differ: Mapping[str, Keys]) -> list[str]:
    """Return the arms whose difference is a proper part of this arm's, largest first.

    Names of classes do not count, nor do keys that an arm's option lacks.
    """
    brought = {
        arm: {key: values for key, values in keys.items() if not _names_class(key) and values[0] is not MISSING}
        for arm, keys in differ.items()
    }
    parts = [arm for arm, part in brought.items() if part and part.items() < brought[name].items()]
    return sorted(parts, key=lambda arm: -len(brought[arm]))


def _find_unsaid(keys: Keys, typed: Sequence[str]) -> list[str]:
    """Return the keys that the arm's name does not mention. It mentions a typed key, and for a group the option and the
    keys that only this option has. A key with different values in both arms counts if it is the whole difference.
    """
    alone = sum(not _names_class(key) for key in keys) == 1

    def is_said(key: str) -> bool:
        return key in typed or (within(key, typed) and (alone or MISSING in keys[key] or _names_class(key)))

    return [key for key in keys if not is_said(key)]

"""Find the keys in which each arm differs from its baseline, and arms that would be better baselines.

An arm is named after its overrides, such as `gradient=noise`, but an override may change several keys: this one also
turns on clipping. If another arm only turns on clipping, it is the better baseline for measuring the effect of noise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from asr_ablations.runs.listed_arms import collect_listed_keys
from asr_verdicts.arms import Arm, is_search
from asr_verdicts.config import LIST, OWN, Config, leaves, within
from asr_verdicts.confounds import MISSING, References, derived, references, value_text
from asr_verdicts.record import SYSTEM

if TYPE_CHECKING:  # imports scipy, which would delay the start of a sweep
    from asr_verdicts.design import Design

TARGET = "_target_"  # last part of a key whose value is the name of a class
SOURCE = "_source_"  # last part of a key whose value is a hash of the source of a user's class

Keys = dict[str, tuple[object, object]]
"""Pairs of an arm's value and the baseline's value, by dotted key; MISSING if the arm or the baseline lacks the key."""


@dataclass(frozen=True)
class ArmDifference:
    """The difference between the configs of an arm and of the baseline.

    - keys: differing keys, except derived keys; unsaid: differing keys that the arm's name does not mention
    - better: other arms whose differences are a proper subset of this difference, the largest first
    """

    arm: str
    baseline: str
    keys: Keys
    unsaid: list[str]
    better: list[str]

    @property
    def text(self) -> str:
        """Format the difference, as in "gradient=noise: gradient.limit 1.0 for null, gradient.decay 0.55 for none"."""
        return f"{self.arm}: {keys_text(self.keys)}"

    @property
    def proposal(self) -> str | None:
        """Return a sentence that proposes a better baseline, or None if no other arm is better."""
        if not self.better:
            return None
        return (
            f"{self.arm} differs from {self.baseline} in every key that {self.better[0]} changes, and in more "
            f"({keys_text(self.keys)}). To measure only these, compare it with {self.better[0]} "
            f"(ablation.baseline: {self.better[0]})"
        )


def keys_text(keys: Keys) -> str:
    """Format each key with the arm's value and the baseline's value, as in "gradient.limit 1.0 for null".

    A class is shown by its name, or by a hash of its source if both names are the same.
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
    """Format a config value. last: last part of its key, which shows whether it is a class name or a hash."""
    if isinstance(value, str):
        value = {SOURCE: value[:8], TARGET: value.rpartition(".")[2]}.get(last, value)
    return "none" if value is MISSING else value_text(value)


def arm_differences(
    configs: Mapping[str, Config], baseline: str, factor: Sequence[str], derivations: References
) -> list[ArmDifference]:
    """Return the difference between each arm and the baseline. configs: resolved config of each arm.

    derivations: keys that are derived from other keys. If there are several factors, no better baselines are proposed,
    because crossed factors already separate their effects.
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
    """Return the difference between each arm of a comparison and the baseline.

    The list is empty if the baseline has no results, if the arms are runs of a search (which have a separate table), or
    if they are systems of other toolkits (whose configs are unknown).
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
    """Return whether the value of a key is the name of a class or a hash of its source."""
    return key.rpartition(".")[2].startswith("_")


def _find_contained(name: str, differ: Mapping[str, Keys]) -> list[str]:
    """Return the arms whose difference is a proper subset of that of arm `name`, the largest first.

    Class names do not count, nor do keys that an arm lacks.
    """
    brought = {
        arm: {key: values for key, values in keys.items() if not _names_class(key) and values[0] is not MISSING}
        for arm, keys in differ.items()
    }
    parts = [arm for arm, part in brought.items() if part and part.items() < brought[name].items()]
    return sorted(parts, key=lambda arm: -len(brought[arm]))


def _find_unsaid(keys: Keys, typed: Sequence[str]) -> list[str]:
    """Return the differing keys that an arm's name does not mention. typed: keys and groups in its name.

    A group in the name mentions its class, and keys that only the arm or only the baseline has. If both have a key, the
    group mentions the key only if no other key differs.
    """
    alone = sum(not _names_class(key) for key in keys) == 1

    def is_said(key: str) -> bool:
        return key in typed or (within(key, typed) and (alone or MISSING in keys[key] or _names_class(key)))

    return [key for key in keys if not is_said(key)]

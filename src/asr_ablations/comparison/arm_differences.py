"""The keys in which each arm differs from its baseline, and the arm that would be the better baseline.

An arm is named by what was typed, as `gradient=noise`; what its choice sets may be more: here a clipping, which is
another arm's whole difference. Then the effect of the name is the difference to that arm.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from asr_ablations.runs.listed_arms import keys_of_lists
from asr_verdicts.arms import Arm, is_search
from asr_verdicts.config import LIST, OWN, Config, leaves, within
from asr_verdicts.confounds import MISSING, References, derived, references, value_text
from asr_verdicts.record import SYSTEM

if TYPE_CHECKING:  # it imports scipy, which the start of a sweep does without
    from asr_verdicts.design import Design

TARGET = "_target_"
"""Last part of the keys that name a class: the choice itself."""

SOURCE = "_source_"
"""Last part of the keys that have the hash of a class of the user's own: it follows from the class."""

Keys = dict[str, tuple[object, object]]
"""Values by dotted key: the arm's and the baseline's, MISSING where one has no such key."""


@dataclass(frozen=True)
class ArmDifference:
    """keys: all that differ but those that follow from others; unsaid: those that the arm's name does not say. better:
    arms whose whole difference is a part of this one's, the largest first.
    """

    arm: str
    baseline: str
    keys: Keys
    unsaid: list[str]
    better: list[str]

    @property
    def text(self) -> str:
        """As in "gradient=noise: gradient.limit 1.0 for null, gradient.variance 1e-06 for none"."""
        return f"{self.arm}: {keys_text(self.keys)}"

    @property
    def proposal(self) -> str | None:
        """What to take as the baseline in place of the present one; None where nothing is better."""
        if not self.better:
            return None
        return (
            f"{self.arm} differs from {self.baseline} in all that {self.better[0]} does, and more "
            f"({keys_text(self.keys)}): its own effect is the difference to {self.better[0]} "
            f"(ablation.baseline: {self.better[0]})"
        )


def keys_text(keys: Keys) -> str:
    """The values of the arm for those of its baseline; of a class its name, or its source where the names are equal.
    A choice that is null on one side is shown by its class on the other.
    """
    parts = [
        _key_text(key, *values)
        for key, values in keys.items()
        if not (key.endswith(f".{SOURCE}") and key.removesuffix(SOURCE) + TARGET in keys)
        and f"{key}.{TARGET}" not in keys
    ]
    return ", ".join(parts) or "nothing"


def _key_text(key: str, own: object, base: object) -> str:
    if key.endswith(f".{SOURCE}"):
        own, base = (value[:8] if isinstance(value, str) else value for value in (own, base))
        return f"source of {key.removesuffix(f'.{SOURCE}')} {_value(own)} for {_value(base)}"
    if key.endswith(f".{TARGET}"):
        own, base = (str(value).rpartition(".")[2] if isinstance(value, str) else value for value in (own, base))
        key = key.removesuffix(f".{TARGET}")
    return f"{key} {_value(own)} for {_value(base)}"


def _value(value: object) -> str:
    return "none" if value is MISSING else value_text(value)


def arm_differences(
    configs: Mapping[str, Config],
    baseline: str,
    factor: Sequence[str],
    known: References,
) -> list[ArmDifference]:
    """Of every arm but the baseline. configs: a resolved config of each arm, by its name; known: which keys follow from
    others. Two factors that are crossed need no other baseline: their effects are separated.
    """
    said, varied = keys_of_lists(configs)
    whole = {name: leaves(config) for name, config in configs.items()}
    follows = derived([*factor, *varied], known)
    differ = {name: _keys(content, whole[baseline], follows) for name, content in whole.items() if name != baseline}
    return [
        ArmDifference(
            arm=name,
            baseline=baseline,
            keys=keys,
            unsaid=_unsaid(keys, [*factor, *said.get(name, [])]),
            better=[] if len(factor) > 1 else _contained(name, differ),
        )
        for name, keys in differ.items()
    ]


def differences_of_arms(design: "Design", arms: Sequence[Arm]) -> list[ArmDifference]:
    """The differences of a comparison's arms. arms: those that have results.

    None for a search, whose runs have their own table, and for systems, whose configs are unknown.
    """
    if design.baseline not in arms or is_search(arms) or design.layout.factor == [SYSTEM]:
        return []
    configs = {arm.name: arm.results[0].config for arm in arms}
    known = references([run for arm in arms for run in arm.results])
    return arm_differences(configs, design.baseline.name, design.layout.factor, known)


def _keys(own: Mapping[str, object], base: Mapping[str, object], follows: set[str]) -> Keys:
    keys = {key: (own.get(key, MISSING), base.get(key, MISSING)) for key in dict.fromkeys([*base, *own])}
    return {
        key: (one, other)
        for key, (one, other) in keys.items()
        if one != other and not within(key, [LIST, OWN, *follows])
    }


def _plain(keys: Keys) -> Keys:
    """Without the names of classes, and what goes with a class alone."""
    return {key: values for key, values in keys.items() if not key.rpartition(".")[2].startswith("_")}


def _brought(keys: Keys) -> Keys:
    """The values that the arm brings; a key that its choice does not have is no part of another arm's difference."""
    return {key: values for key, values in _plain(keys).items() if values[0] is not MISSING}


def _contained(name: str, differ: Mapping[str, Keys]) -> list[str]:
    """The arms whose difference is a proper part of this arm's, the largest first."""
    own = _brought(differ[name]).items()
    parts = {
        other: len(part)
        for other, keys in differ.items()
        if other != name and (part := _brought(keys)) and part.items() < own
    }
    return sorted(parts, key=lambda other: -parts[other])


def _unsaid(keys: Keys, typed: Sequence[str]) -> list[str]:
    """The keys that the arm's name does not say. It says a key that was typed, and of a group the choice and what only
    this choice has. A key that both arms have, with other values, it says where it is the whole difference.
    """
    alone = len(_plain(keys)) == 1
    return [key for key, values in keys.items() if not _is_said(key, values, typed, alone)]


def _is_said(key: str, values: tuple[object, object], typed: Sequence[str], alone: bool) -> bool:
    if key in typed:
        return True
    return within(key, typed) and (alone or MISSING in values or key.rpartition(".")[2].startswith("_"))

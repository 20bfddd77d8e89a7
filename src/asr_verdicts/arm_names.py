"""The name of an arm, from its choices, and the arm that a user means by a name."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from asr_verdicts.listed_arms import OWN
from asr_verdicts.record import SYSTEM

EVERYTHING = "all"
"""The name of an arm that differs from others in nothing but its seeds."""
NAMED = (OWN, SYSTEM)
"""Keys whose values are names that people gave: an arm of a list, or a system."""


class Named(Protocol):
    """An arm with its choices by key or group."""

    @property
    def name(self) -> str: ...

    @property
    def levels(self) -> dict[str, str]: ...


AnArm = TypeVar("AnArm", bound=Named)
Value = TypeVar("Value")


def name_of(levels: Mapping[str, str]) -> str:
    """The name of the arm with these choices: `rnn=lstm`, `rnn=lstm, dropout=0.1`, or the name that it was given."""
    return ", ".join(value if key in NAMED else f"{key}={value}" for key, value in levels.items()) or EVERYTHING


def find_arm(name: str, arms: Sequence[AnArm]) -> AnArm | None:
    """The arm that a user means by a name; None where the name fits no arm or several.

    `lstm` is rnn=lstm, and "rnn=lstm, batch.size=8" where that is the only LSTM; `shuffled,norm=batch` is the arm of
    these two choices.
    """
    parts = [part.strip() for part in re.split(r",(?![^\[]*\])", name)]
    readings: tuple[Callable[[AnArm], bool], ...] = (
        lambda arm: arm.name == name,
        lambda arm: name in list(arm.levels.values())[:1],
        lambda arm: all(_fits(part, arm.levels) for part in parts),
    )
    for fits in readings:
        matches = [arm for arm in arms if fits(arm)]
        if len(matches) == 1:
            return matches[0]
    return None


def _fits(part: str, levels: Mapping[str, str]) -> bool:
    """True if `key=value`, or a value alone, is one of the choices."""
    key, equals, value = part.partition("=")
    return levels.get(key) == value if equals else part in levels.values()


def by_arm(values: Mapping[str, Value], arms: Sequence[Named]) -> dict[str, Value]:
    """The values by the names of the arms that their keys mean; a key that means none stays as it is."""
    return {(arm.name if (arm := find_arm(key, arms)) else key): value for key, value in values.items()}

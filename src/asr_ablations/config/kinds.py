"""The kind of value that each key of an option takes, as its yaml shows it: a number, a text, a list, true or false."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from asr_ablations.config.targets import MARKS, options_of
from asr_ablations.tools.errors import choices
from asr_ablations.tools.files import Json

NUMBER, TEXT, LIST, KEYS, SWITCH = "a number", "a text", "a list", "keys and values", "true or false"
ANY = "anything"
NAMES_OF_SETS = "data"
"""The group whose keys take a name as well as a list of names or paths."""


def check_kinds(group: str, node: Mapping[str, Any]) -> None:
    """Raises UsageError for a value of another kind than those that the files of the group give its key.

    Null in place of a value is for the class that is built: it alone knows what it can do without.
    """
    for key, value in node.items():
        kinds = _kinds(group, str(node.get("_target_"))).get(str(key), {ANY: None})
        if (value is None and KEYS not in kinds) or ANY in kinds:
            continue
        example = next(iter(kinds.values()))
        if isinstance(value, dict) and isinstance(example, dict):
            _check_below(f"{group}.{key}", value, example)
            continue
        names_sets = group == NAMES_OF_SETS and {kind(value), *kinds} <= {TEXT, LIST}
        if value is None or (kind(value) not in kinds and not names_sets):
            raise choices(f"{group}.{key}", value, f"{' or '.join(kinds)}, as {example}")


def _check_below(place: str, node: Mapping[str, Any], example: Mapping[str, Any]) -> None:
    """The same for values below a key, by those that the file has there; new keys are allowed."""
    for key, value in node.items():
        known = example.get(key)
        if isinstance(value, dict) and isinstance(known, dict):
            _check_below(f"{place}.{key}", value, known)
        elif key not in MARKS and known is not None and value is not None and kind(value) != kind(known):
            raise choices(f"{place}.{key}", value, f"{kind(known)}, as {known}")


def kind(value: object) -> str:
    if isinstance(value, bool):
        return SWITCH
    if isinstance(value, (int, float)):
        return NUMBER
    if isinstance(value, str):
        return TEXT
    return LIST if isinstance(value, list) else KEYS


@cache
def _kinds(group: str, target: str) -> dict[str, dict[str, object]]:
    """By key the kinds of its values, each with an example, from the files of the group that name the target."""
    known: dict[str, dict[str, object]] = {}
    nodes: list[Json] = [node for node in options_of(group) if node["_target_"] == target]
    for node in nodes:
        for key, value in node.items():
            if key not in MARKS:
                open_ = value is None or (isinstance(value, str) and "${" in value)
                known.setdefault(str(key), {}).setdefault(ANY if open_ else kind(value), value)
    return known

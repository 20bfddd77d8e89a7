"""The kind of value that each key of an option takes, as its yaml shows it: a number, a text, a list, true or false."""

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

from asr_ablations.config.targets import GROUP, MARKS, groups, options_of
from asr_ablations.tools.errors import choices
from asr_ablations.tools.files import Json

NUMBER, TEXT, LIST, KEYS, SWITCH = "a number", "a text", "a list", "keys and values", "true or false"
ANY = "anything"
NAMES_OF_SETS = "data"
"""The group whose keys take a name as well as a list of names or paths."""


def check_kinds(group: str, node: Mapping[str, Any]) -> None:
    """Raises UsageError for a value of another kind than those that the files of the group give its key, at any depth,
    and for what is no number at all (nan), or none of the machine's.

    Null in place of a value is for the class that is built: it alone knows what it can do without.
    """
    for key, value in node.items():
        place = f"{group}.{key}"
        kinds = _kinds(group, str(node.get("_target_"))).get(str(key), {ANY: None})
        if (value is None and KEYS not in kinds) or ANY in kinds:
            continue
        _refuse_no_number(place, value)
        example = next(iter(kinds.values()))
        names_sets = group == NAMES_OF_SETS and {kind(value), *kinds} <= {TEXT, LIST}
        if value is None or (kind(value) not in kinds and not names_sets):
            raise choices(place, value, f"{' or '.join(kinds)}, as {example}")
        if names_sets and isinstance(value, list):
            _check_below(place, value, [["dev"]])
        _check_below(place, value, _shown(group, str(node.get("_target_")), str(key)))


def _check_below(place: str, value: Any, shown: list[Any]) -> None:
    """The same for what is in a list or a table, by what is there in the files: other names are allowed."""
    if isinstance(value, dict):
        inner = {key: (one, [s[key] for s in shown if isinstance(s, dict) and key in s]) for key, one in value.items()}
    elif isinstance(value, list):
        lists = [entry for entries in shown if isinstance(entries, list) for entry in entries]
        inner = {i: (one, [entry for entry in lists if _builds_the_same(one, entry)]) for i, one in enumerate(value)}
    else:
        return
    for key, (one, known) in inner.items():
        if key in MARKS or one is None or not known or any(entry is None or _is_open(entry) for entry in known):
            continue
        if kind(one) not in (kinds := dict.fromkeys(map(kind, known))):
            raise choices(f"{place}.{key}", one, f"{' or '.join(kinds)}, as {known[0]}")
        _check_below(f"{place}.{key}", one, known)


def _builds_the_same(value: Any, entry: Any) -> bool:
    """Whether an entry of a list shows what another one may be: of those that build something, each its own kind."""
    return not isinstance(value, dict) or not isinstance(entry, dict) or value.get("_target_") == entry.get("_target_")


def _shown(group: str, target: str, key: str) -> list[Any]:
    """What the files of the group that name the target have for a key."""
    return [node[key] for node in options_of(group) if node["_target_"] == target and key in node]


def _refuse_no_number(place: str, value: object) -> None:
    if isinstance(value, float) and math.isnan(value):
        raise choices(place, value, "a finite number")
    if isinstance(value, int) and abs(value) >= 2**63:
        raise choices(place, value, "a whole number of up to 64 bits")
    if isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            _refuse_no_number(f"{place}.{key}", inner)


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
                of_a_group = isinstance(value, str) and (match := GROUP.fullmatch(value)) and match[1] in groups()
                name = KEYS if of_a_group else ANY if value is None or _is_open(value) else kind(value)
                known.setdefault(str(key), {}).setdefault(name, value)
    return known


def _is_open(value: object) -> bool:
    """Whether a file leaves a value to another key."""
    return isinstance(value, str) and "${" in value

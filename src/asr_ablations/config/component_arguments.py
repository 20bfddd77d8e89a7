"""Rewords an error of a class or of torch so that it names the config key that the user typed."""

import functools
import math
import re
from collections.abc import Iterator, Mapping
from functools import cache

from asr_ablations.config.targets import GROUP, MARKS, groups, options_of
from asr_verdicts.errors import choices

LONGEST = 300
"""Letters of values that stand before a message."""


def by_key(group: object, options: Mapping[str, object], parts: Mapping[str, object], error: Exception) -> str:
    """The error's message behind the group's key that it begins with, `channels=0` of convolutions.1.channels; else
    behind those whose values it mentions, else behind all.

    parts: what the group's class is built from beside its options, by the group of each.
    """
    message = str(error)
    leaves = [(f"{group}.{key}" if group else key, value) for key, value in _leaves(options)]
    for name, part in parts.items():
        if isinstance(part, functools.partial):
            leaves += [(f"{name}.{key}", value) for key, value in _leaves(part.keywords)]
    first, is_key, rest = message.partition("=")
    if is_key and (names := [(key, value) for key, value in leaves if key.rpartition(".")[2] == first]):
        # of several keys of this name, the one with the value that is mentioned
        return f"{next((key for key, value in names if rest.startswith(f'{value}')), names[0][0])}={rest}"
    mentioned = [(key, value) for key, value in leaves if _mentions(message, value)]
    shown = ", ".join(f"{key}={value}" for key, value in mentioned or leaves)[:LONGEST]
    target = options.get("_target_")
    if isinstance(error, (TypeError, AttributeError)):  # of Python's: it may be the class's name that helps
        return f"{target} with {shown}: {message}"
    return f"{shown or target}: {message}"


def _leaves(node: object, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Each value with its dotted key; of a list of values that build nothing, the list."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key not in MARKS:
                yield from _leaves(value, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(node, list) and any(isinstance(value, Mapping) for value in node):
        for place, value in enumerate(node):
            yield from _leaves(value, f"{prefix}.{place}")
    else:
        yield prefix, node


def _mentions(message: str, value: object) -> bool:
    """Return whether a value, or one in a list, is a word of the message."""
    if isinstance(value, list):
        return any(_mentions(message, one) for one in value)
    text = "NoneType" if value is None else str(value)
    return re.search(rf"(?<![\w.-]){re.escape(text)}(?![\w.])", message) is not None


NUMBER, TEXT, LIST, KEYS, SWITCH = "a number", "a text", "a list", "keys and values", "true or false"
ANY = "anything"
NAMES_OF_SETS = "data"
"""The group whose keys take a name as well as a list of names or paths."""


def check_kinds(group: str, node: Mapping[str, object]) -> None:
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


def _check_below(place: str, value: object, shown: list[object]) -> None:
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


def _builds_the_same(value: object, entry: object) -> bool:
    """Return whether an entry is an example for a value: entries that build something need the same target."""
    return not isinstance(value, dict) or not isinstance(entry, dict) or value.get("_target_") == entry.get("_target_")


def _shown(group: str, target: str, key: str) -> list[object]:
    """The values of a key in the group's files that name the target."""
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
    nodes: list[Mapping[str, object]] = [node for node in options_of(group) if node["_target_"] == target]
    for node in nodes:
        for key, value in node.items():
            if key not in MARKS:
                of_a_group = isinstance(value, str) and (match := GROUP.fullmatch(value)) and match[1] in groups()
                name = KEYS if of_a_group else ANY if value is None or _is_open(value) else kind(value)
                known.setdefault(str(key), {}).setdefault(name, value)
    return known


def _is_open(value: object) -> bool:
    """Return whether a file leaves a value to another key."""
    return isinstance(value, str) and "${" in value

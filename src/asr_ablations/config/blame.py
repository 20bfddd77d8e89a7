"""What a class says of a value, by the key that was typed: the class knows its argument, and torch not even that."""

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from asr_ablations.config.targets import MARKS

LONGEST = 300
"""Letters of values that stand before a message."""


def by_key(group: object, options: Mapping[Any, Any], parts: Mapping[str, object], error: Exception) -> str:
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
    if isinstance(error, TypeError):  # of Python's: it may be the class's name that helps
        return f"{target} with {shown}: {message}"
    return f"{shown or target}: {message}"


def _leaves(node: object, prefix: str = "") -> Iterator[tuple[str, Any]]:
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
    """Whether a value, or one in a list, is a word of the message."""
    if isinstance(value, list):
        return any(_mentions(message, one) for one in value)
    return value is not None and re.search(rf"(?<![\w.-]){re.escape(str(value))}(?![\w.])", message) is not None

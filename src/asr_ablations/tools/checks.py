"""Check values from a config or the command line, and raise UsageError for wrong values."""

import math
import sys
import unicodedata
from typing import Any, TypeGuard

from asr_verdicts.errors import choices

MOST_WIDTH, MOST_LAYERS = 2**16, 1000
"""Maximum number of channels or units in a layer, and of layers in a model. A larger model would hang the machine."""


def is_whole(value: object, least: int | None = None) -> TypeGuard[int]:
    """Return whether the value is a whole number, `least` or more. A boolean is not a number."""
    return isinstance(value, int) and not isinstance(value, bool) and (least is None or value >= least)


def is_number(value: object) -> TypeGuard[float]:
    """Return whether the value is a finite number. A boolean is not a number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def whole(name: str, value: object, least: int, most: int | None = None, *, also: str = "") -> int:
    """Return the value if it is a whole number from `least` to `most`. also: other valid values, for the message."""
    if is_whole(value, least) and (most is None or value <= most):
        return value
    extent = f"a whole number, {least} or more" if most is None else f"a whole number from {least} to {most}"
    raise choices(name, value, f"{extent}, or {also}" if also else extent)


def number(
    name: str,
    value: object,
    *,
    least: float = -math.inf,
    above: float = -math.inf,
    below: float = math.inf,
    most: float = math.inf,
    also: str = "",
) -> float:
    """Return the value if it is a finite number within the bounds. also: other valid values, for the message."""
    if is_number(value) and least <= value <= most and above < value < below:
        return value
    extent = _describe_extent(least, above, below, most)
    raise choices(name, value, f"{extent}, or {also}" if also else extent)


def path_or_none(name: str, value: object) -> str | None:
    """Return the value if it is None or a path. Raise UsageError otherwise."""
    return None if value is None else a_path(name, value)


def a_list(name: str, value: object) -> list[Any]:
    """Return a list or tuple as a list. Strings are refused, because `list` would split them into characters."""
    if isinstance(value, (list, tuple)):
        return list(value)
    raise choices(name, value, "a list, such as [a, b]")


def a_path(name: str, value: object) -> str:
    """Return the value if it is a non-empty string. Control characters are refused, because paths are printed."""
    if isinstance(value, str) and value and is_printable(value):
        return value
    raise choices(name, value, f"a path; quote a path that is a number: {name}=\"'{value}'\"")


def label_or_null(name: str, value: object) -> str | None:
    """Return a number, or a name without control characters, as a string; return None for None."""
    if value is None:
        return None
    if is_number(value) or (isinstance(value, str) and value.strip() and is_printable(value)):
        return str(value)
    raise choices(name, value, "a name, or null")


def is_printable(text: str) -> bool:
    """Return whether a string is free of control characters, which could change a terminal's state."""
    return not any(unicodedata.category(letter) == "Cc" for letter in text)


def check_auto_or_one(name: str, value: object) -> None:
    """Raise UsageError unless the value is auto, 0 or 1."""
    if value != "auto" and not (is_whole(value, 0) and value <= 1):
        raise choices(name, value, ("auto", 0, 1))


def switch(name: str, value: object) -> bool:
    """Return the value if it is true or false. Raise UsageError otherwise."""
    if isinstance(value, bool):
        return value
    raise choices(name, value, "true or false")


def _describe_extent(least: float, above: float, below: float, most: float) -> str:
    """Return the bounds in words, such as "a number from 0 to below 1"."""
    upper = f"below {below:g}" if below < math.inf else f"{most:g}" if most < math.inf else ""
    if least > -math.inf:
        return f"a number from {least:g} to {upper}" if upper else f"a number, {least:g} or more"
    lower = f" above {above:g}" if above > -math.inf else ""
    return f"a number{lower}, up to {upper}" if upper else f"a number{lower}"

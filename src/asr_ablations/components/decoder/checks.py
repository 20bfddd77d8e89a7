"""Values of decoders, checked where they are used."""

import math
from typing import Any

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.tools.errors import UsageError, choices


def plain(alphabet: Alphabet) -> Alphabet:
    """Raises UsageError for an alphabet with a separation character: no search knows yet that it stands for nothing."""
    if alphabet.separation:
        raise UsageError(f"alphabet.separation={alphabet.separation}: such models are decoded with decoder=greedy only")
    return alphabet


def whole(name: str, value: Any) -> int:
    """Raises UsageError for what is not a whole number above 0."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise choices(f"decoder.{name}", value, "a whole number, 1 or more")
    return value


def finite(name: str, value: Any) -> float:
    """Raises UsageError for what is not a finite number."""
    if not _number(value) or not math.isfinite(value):
        raise choices(f"decoder.{name}", value, "a finite number")
    return float(value)


def distance(name: str, value: Any) -> float:
    """Raises UsageError for what is not a number above 0; .inf is one."""
    if not _number(value) or not value > 0:
        raise choices(f"decoder.{name}", value, "a number above 0 (nats; .inf for none)")
    return float(value)


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)

"""Values of decoders, checked where they are used."""

import math

from asr_ablations.tools.checks import is_number, whole
from asr_ablations.tools.errors import choices

WIDEST = 65_536
"""Hypotheses: with more, a single utterance takes hours and the machine's memory."""


def width(value: object) -> int:
    """The value of decoder.beam_width. Raises UsageError for one that is no whole number from 1 to WIDEST."""
    return whole("decoder.beam_width", value, 1, WIDEST)


def finite(name: str, value: object) -> float:
    """The value of decoder.<name>. Raises UsageError for one that is not a finite number."""
    if is_number(value):
        return float(value)
    raise choices(f"decoder.{name}", value, "a finite number")


def distance(name: str, value: object) -> float:
    """The value of decoder.<name>. Raises UsageError for one that is not a number above 0; .inf is one."""
    if value == math.inf or (is_number(value) and value > 0):
        return float(value)
    raise choices(f"decoder.{name}", value, "a number above 0 (nats; .inf for none)")

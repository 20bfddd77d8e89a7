"""How a report draws a difference: the verdict's own interval where there is one."""

from asr_ablations.comparison.result import ALPHA, Difference


def low(found: Difference) -> float:
    """The lower end: of the interval over seeds and speakers, with one seed of that over speakers alone."""
    return found.low if found.half_width is None else found.difference - found.half_width


def high(found: Difference) -> float:
    """The upper end, likewise."""
    return found.high if found.half_width is None else found.difference + found.half_width


def outcome(found: Difference) -> str:
    """The verdict in a word or two: one seed an arm decides nothing."""
    if found.p_holm is None:
        return "undecided"
    if found.p_holm > ALPHA:
        return "no difference shown"
    return "worse" if found.difference > 0 else "better"

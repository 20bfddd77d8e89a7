"""Guards for values that a person typed: what they let pass, and what they say of the rest."""

import math

import pytest

from asr_ablations.tools.checks import number, switch, whole
from asr_ablations.tools.errors import UsageError


@pytest.mark.parametrize("value", [1, 7, 10**12])
def test_whole_numbers_pass(value: int) -> None:
    assert whole("x", value, 1) == value


@pytest.mark.parametrize("value", [0, -1, True, 1.0, "1", None, math.nan, [1]])
def test_what_is_no_whole_number_from_one_is_refused_by_name(value: object) -> None:
    with pytest.raises(UsageError) as error:
        whole("batch.size", value, 1)
    assert str(error.value) == f"batch.size={value}: expected a whole number, 1 or more"


def test_the_upper_bound_and_other_choices_are_said() -> None:
    with pytest.raises(UsageError, match=r"^port=70000: expected a whole number from 0 to 65535$"):
        whole("port", 70000, 0, 65535)
    with pytest.raises(UsageError, match=r"^gpus=-1: expected a whole number, 0 or more, or auto$"):
        whole("gpus", -1, 0, also="auto")


@pytest.mark.parametrize("value", [True, "0.5", None, math.nan, math.inf, -math.inf, [0.5]])
def test_what_is_no_finite_number_is_refused(value: object) -> None:
    with pytest.raises(UsageError, match="expected a number"):
        number("x", value)


@pytest.mark.parametrize(
    ("bounds", "inside", "outside", "words"),
    [
        ({}, -1e9, math.nan, "a number"),
        ({"least": 0}, 0, -1, "a number, 0 or more"),
        ({"above": 0}, 1e-9, 0, "a number above 0"),
        ({"least": 0, "below": 1}, 0, 1, "a number from 0 to below 1"),
        ({"least": 0, "most": 1}, 1, 1.5, "a number from 0 to 1"),
    ],
)
def test_numbers_lie_within_their_bounds(bounds: dict[str, float], inside: float, outside: float, words: str) -> None:
    assert number("x", inside, **bounds) == inside
    with pytest.raises(UsageError) as error:
        number("x", outside, **bounds)
    assert str(error.value) == f"x={outside}: expected {words}"


def test_switches_are_true_or_false_and_nothing_else() -> None:
    assert switch("x", True) is True
    for value in (0, 1, "true", None):
        with pytest.raises(UsageError, match="true or false"):
            switch("x", value)

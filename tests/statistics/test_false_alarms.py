"""Verdicts over invented sweeps of equal arms: at most 5 % are false, in every kind of sweep. The campaign's part
`verdicts` measures the same with many more of them.
"""

from math import sqrt

import pytest

from tests.helpers.false_alarms import DESIGNS, alarms, finds

SWEEPS, SEED = 200, 1
SHORT = [name for name, design in DESIGNS.items() if len(design.looks) < 10 and name != "8 arms, 5 seeds"]
"""Without the longest: those that look at every seed, and the larger of two families."""


@pytest.mark.parametrize("name", SHORT)
def test_equal_arms_are_called_different_in_at_most_5_percent(name: str) -> None:
    """5 %, and two standard errors of so many sweeps. By chance one design in forty is above that: the seed is one at
    which none is.
    """
    assert alarms(DESIGNS[name], SWEEPS, seed=SEED) / SWEEPS <= 0.05 + 2 * sqrt(0.05 * 0.95 / SWEEPS)


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("equal arms, 5 seeds", 0.5),
        ("one arm × 3, 10 seeds", 0.8),
        ("5 % diverged, trimmed, 10 seeds", 0.75),
        ("decoders, 6 models", 0.5),
        ("interaction, 5 seeds", 0.8),
        ("looks at 3, 5, 10, 20", 0.85),
    ],
)
def test_an_effect_is_found(name: str, least: float) -> None:
    """A test that never calls anything different raises no false alarms either."""
    assert finds(DESIGNS[name], 100, seed=2) / 100 >= least


def test_means_hide_an_effect_behind_a_single_run_that_diverged() -> None:
    """Why trimmed means are offered."""
    names = ("5 % diverged, 10 seeds", "5 % diverged, trimmed, 10 seeds")
    mean, trimmed = (finds(DESIGNS[name], 100, seed=2) for name in names)
    assert trimmed > mean + 25

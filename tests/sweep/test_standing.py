"""Where each arm stands after a look, as the sweep's folder tells it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from asr_ablations.comparison.result import Comparison
from asr_ablations.runs.layout import STANDING
from asr_ablations.sweep.until.ablation import standing, write_standing
from asr_ablations.tools.files import Json
from tests.helpers.planned import LOOKS, planned


def of(comparison: Comparison) -> Json:
    assert comparison.plan is not None
    assert comparison.course is not None
    return standing(comparison.plan, comparison.course)


@pytest.fixture(scope="module")
def ended() -> Comparison:
    return planned()


def test_each_arm_has_look_seeds_and_state(ended: Comparison) -> None:
    arms = {name: (arm["look"], arm["seeds"], arm["state"]) for name, arm in of(ended)["arms"].items()}
    assert arms == {
        "lstm": (3, 8, "decided"),
        "gru": (1, 3, "better"),
        "rnn": (3, 8, "equivalent"),
        "sru": (3, 8, "undecided"),
        "fsmn": (1, 3, "worse"),
    }
    assert of(ended)["ended"]


def test_under_way_the_baseline_is_open_with_its_questions() -> None:
    early = of(planned(LOOKS[0]))
    assert (early["look"], early["looks"], early["ended"]) == (1, 3, False)
    assert {name: arm["state"] for name, arm in early["arms"].items()} == {
        "lstm": "open", "gru": "better", "rnn": "open", "sru": "open", "fsmn": "worse",
    }  # fmt: skip


def test_before_the_first_look_every_arm_is_open() -> None:
    """Two seeds of each, where the first look asks for three."""
    arms = of(planned(2))["arms"]
    assert {(arm["look"], arm["seeds"], arm["state"]) for arm in arms.values()} == {(0, 0, "open")}


def test_the_intervals_are_those_of_the_verdicts(ended: Comparison, tmp_path: Path) -> None:
    """An interval without ends is null: JSON knows no infinity."""
    assert ended.plan is not None
    assert ended.course is not None
    write_standing(tmp_path, ended.plan, ended.course)
    arms = json.loads((tmp_path / STANDING).read_text())["arms"]
    for contrast in ended.course.contrasts:
        question = arms[contrast.arm]["questions"][contrast.arm]
        assert (question["low"], question["high"]) == (contrast.low, contrast.high)
        assert question == arms["lstm"]["questions"][contrast.arm]
    endless = [replace(contrast, low=-float("inf"), high=float("inf")) for contrast in ended.course.contrasts]
    write_standing(tmp_path, ended.plan, replace(ended.course, contrasts=endless))
    text = (tmp_path / STANDING).read_text()
    arms = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))["arms"]
    assert arms["gru"]["questions"]["gru"]["low"] is None

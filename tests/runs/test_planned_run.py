"""A run knows its part in the plan of its sweep, from the plan and from where the arms stood when it began."""

from pathlib import Path

import pytest

from asr_ablations.runs.layout import STANDING, SWEEP
from asr_ablations.runs.sweep_history import PlannedRun, planned_run
from asr_ablations.tools.files import write_json
from tests.helpers.invented_records import config
from tests.helpers.planned import plan


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    write_json(tmp_path / SWEEP, {"plan": plan(["lstm", "gru"]).as_json()})
    return tmp_path


@pytest.mark.parametrize(("seed", "look"), [(0, 1), (2, 1), (3, 2), (4, 2), (5, 3), (7, 3)])
def test_a_run_is_counted_from_its_look_on(seed: int, look: int, sweep: Path) -> None:
    """Looks at 3, 5 and 8 seeds."""
    assert planned_run(sweep / "run", config("rnn=gru", seed)) == PlannedRun(look, 3, "gru", "open")


def test_its_state_is_that_of_its_arm_after_the_look_before(sweep: Path) -> None:
    write_json(sweep / STANDING, {"arms": {"lstm": {"state": "decided"}, "gru": {"state": "worse"}}})
    states = {name: planned_run(sweep / "run", config(f"rnn={name}", 3)) for name in ("lstm", "gru")}
    assert {name: run.state for name, run in states.items() if run} == {"lstm": "decided", "gru": "worse"}


def test_what_the_plan_does_not_name_has_no_part(sweep: Path) -> None:
    assert planned_run(sweep / "run", config("rnn=gru", 8)) is None, "no look counts this seed"
    assert planned_run(sweep / "run", config("rnn=sru", 0)) is None
    assert planned_run(sweep / "elsewhere" / "run", config("rnn=gru", 0)) is None


@pytest.mark.parametrize("damage", ["[]", "{", '{"plan": {"arms": 3}}'])
def test_a_damaged_plan_stops_no_run(damage: str, sweep: Path) -> None:
    (sweep / SWEEP).write_text(damage)
    assert planned_run(sweep / "run", config("rnn=gru", 0)) is None


@pytest.mark.parametrize("damage", ["", "{}", '{"arms": []}', '{"arms": {"gru": 1}}'])
def test_without_a_readable_look_an_arm_is_open(damage: str, sweep: Path) -> None:
    (sweep / STANDING).write_text(damage)
    run = planned_run(sweep / "run", config("rnn=gru", 3))
    assert run is not None
    assert run.state == "open"

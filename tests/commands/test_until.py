"""A sweep that adds seeds until it knows, as a user starts it: what it trains, says, refuses, and survives."""

import json
import re
import shutil
from pathlib import Path

import pytest

from asr_ablations.commands import compare
from asr_ablations.runs.layout import runs_in
from asr_ablations.runs.reader import read_config
from tests.helpers.processes import wait_for
from tests.helpers.survival import CSV, TRAIN, results, start, succeed

pytestmark = pytest.mark.slow
OPEN = [
    *TRAIN, CSV, "max_epochs=1", "rnn=lstm,gru", "until=verdict", "until.hopeless=0", "+ablation.factor=rnn",
    "+ablation.metric=loss", "until.looks=[2,3]", "until.margin=1e-9",
]  # fmt: skip
"""By the loss: the models of these tests write no word right. A margin that no two runs reach."""


def states(output: str) -> list[str]:
    """The sentences on the arms, with difference and interval, however the lines are broken."""
    undecided = r"undecided after [^:]*: rnn=gru against rnn=lstm [^;]*;"
    equal = r"rnn=gru and rnn=lstm are equivalent [^;]*;"
    return re.findall(f"{undecided}|{equal}", " ".join(output.lower().split()))


@pytest.fixture(scope="module")
def ended(corpora: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of the outputs and what was printed."""
    folder = tmp_path_factory.mktemp("ended")
    output = succeed(start(OPEN, corpora, folder))
    return folder, output


def test_seeds_are_added_look_by_look_and_kept_with_sweep_and_runs(ended: tuple[Path, str]) -> None:
    folder, output = ended
    plan = json.loads((folder / "s" / "sweep.json").read_text())["plan"]
    assert (plan["looks"], plan["seeds"], plan["baseline"]) == ([2, 3], [0, 1, 2], "rnn=lstm")
    assert len(results(folder)) == 6
    assert output.index("plan: 2 arms") < output.index("look 1 of 2: 2 seeds") < output.index("look 2 of 2: 3 seeds")
    assert len(states(output)) == 1

    kept = json.loads((folder / "s" / "verdict.json").read_text())
    assert (kept["look"], kept["looks"], kept["ended"]) == (2, 2, True)
    arms = {name: (arm["look"], arm["seeds"]) for name, arm in kept["arms"].items()}
    assert arms == {"rnn=lstm": (2, 3), "rnn=gru": (2, 3)}
    assert kept["arms"]["rnn=gru"]["state"] in states(output)[0]

    of_runs = {}
    for run in runs_in(folder / "s"):
        config, until = read_config(run), json.loads((run / "summary.json").read_text())["until"]
        of_runs[config["rnn"]["_target_"].split(".")[-2], config["seed"]] = until
    assert len(of_runs) == 6
    assert {seed: until["look"] for (_, seed), until in of_runs.items()} == {0: 1, 1: 1, 2: 2}
    assert {until["arm"] for (arm, _), until in of_runs.items() if arm == "gru"} == {"rnn=gru"}
    assert {until["state"] for until in of_runs.values()} == {"open"}, "no look has decided on an arm that goes on"


def test_the_same_command_trains_nothing_and_says_the_same_and_so_does_compare(
    ended: tuple[Path, str], corpora: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, output = ended
    before = results(folder)
    again = succeed(start(OPEN, corpora, folder))
    assert states(again) == states(output)
    assert "plan (frozen earlier)" in again
    assert "running" not in again
    assert results(folder) == before
    assert compare.main([str(folder / "s"), "--no-page"]) == 0
    assert states(capsys.readouterr().out) == states(output)
    assert not (folder / "s" / "looks.json").exists(), "a planned look is no peek"


def test_another_plan_with_force_takes_fresh_seeds(ended: tuple[Path, str], corpora: Path, tmp_path: Path) -> None:
    """Seeds whose results are known are no evidence for a new plan."""
    shutil.copytree(ended[0], tmp_path / "copy")
    fresh = tmp_path / "copy" / "s.2" / "sweep.json"
    with start([*OPEN[:-1], "until.margin=1e-8", "force=true"], corpora, tmp_path / "copy") as command:
        wait_for(lambda: fresh.exists() or command.poll() is not None)
    assert json.loads(fresh.read_text())["plan"]["seeds"] == [3, 4, 5]
    assert json.loads((tmp_path / "copy" / "s" / "sweep.json").read_text())["plan"]["margin"] == 1e-9

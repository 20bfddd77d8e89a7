"""A sweep that adds seeds until it knows, as a user starts it: what it trains, says, refuses, and survives."""

import json
import random
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from asr_ablations.runs.layout import runs_in
from asr_ablations.runs.reader import read_config
from tests.helpers.processes import wait_for
from tests.helpers.survival import CSV, TRAIN, alive, finish, results, start, succeed

UNTIL = [
    *TRAIN, CSV, "max_epochs=1", "rnn=lstm,gru", "until=verdict", "until.looks=[2,3]", "+ablation.factor=rnn",
    "+ablation.metric=loss",
]  # fmt: skip
"""By the loss: the models of these tests write no word right. A margin that no two runs reach."""
OPEN = [*UNTIL, "until.margin=1e-9", "until.hopeless=0"]


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


def manifest(folder: Path, name: str = "s") -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / name / "sweep.json").read_text())
    return content


@pytest.mark.slow
def test_seeds_are_added_look_by_look(ended: tuple[Path, str]) -> None:
    folder, output = ended
    plan = manifest(folder)["plan"]
    assert (plan["looks"], plan["seeds"], plan["baseline"]) == ([2, 3], [0, 1, 2], "rnn=lstm")
    assert len(results(folder)) == 6
    assert output.index("plan: 2 arms") < output.index("look 1 of 2: 2 seeds") < output.index("look 2 of 2: 3 seeds")
    assert len(states(output)) == 1


@pytest.mark.slow
def test_the_sweep_keeps_where_each_arm_stands(ended: tuple[Path, str]) -> None:
    folder, output = ended
    kept = json.loads((folder / "s" / "verdict.json").read_text())
    assert (kept["look"], kept["looks"], kept["ended"]) == (2, 2, True)
    arms = {name: (arm["look"], arm["seeds"]) for name, arm in kept["arms"].items()}
    assert arms == {"rnn=lstm": (2, 3), "rnn=gru": (2, 3)}
    assert kept["arms"]["rnn=gru"]["state"] in states(output)[0]


@pytest.mark.slow
def test_each_run_keeps_its_look_and_the_state_of_its_arm(ended: tuple[Path, str]) -> None:
    folder, _ = ended
    kept = {(run["rnn"]["_target_"].split(".")[-2], run["seed"]): until for run, until in parts(folder)}
    assert len(kept) == 6
    assert {seed: until["look"] for (_, seed), until in kept.items()} == {0: 1, 1: 1, 2: 2}
    assert {until["arm"] for (arm, _), until in kept.items() if arm == "gru"} == {"rnn=gru"}
    assert {until["state"] for until in kept.values()} == {"open"}, "no look has decided on an arm that goes on"


def parts(folder: Path) -> list[tuple[Any, Any]]:
    """Config of each run, and what its summary keeps of the plan."""
    return [
        (read_config(run), json.loads((run / "summary.json").read_text())["until"]) for run in runs_in(folder / "s")
    ]


@pytest.mark.slow
def test_the_same_command_trains_nothing_and_says_the_same(ended: tuple[Path, str], corpora: Path) -> None:
    folder, output = ended
    before = results(folder)
    again = succeed(start(OPEN, corpora, folder))
    assert states(again) == states(output)
    assert "plan (frozen earlier)" in again
    assert "running" not in again
    assert results(folder) == before


@pytest.mark.slow
def test_compare_shows_the_state_of_the_plan(ended: tuple[Path, str], corpora: Path) -> None:
    folder, output = ended
    shown = succeed(start_compare(folder, corpora))
    assert states(shown) == states(output)
    assert not (folder / "s" / "looks.json").exists(), "a planned look is no peek"


def start_compare(folder: Path, corpora: Path) -> Any:
    from asr_ablations.tools.files import REPOSITORY
    from tests.helpers import interpreter
    from tests.helpers.command import clean_environment

    environment = clean_environment(corpora, folder, OMP_NUM_THREADS="1")
    words = [REPOSITORY / "src/compare.py", str(folder / "s"), "--no-page"]
    return interpreter.start(words, environment, folder / "place")


@pytest.mark.slow
def test_a_plan_is_not_changed_after_its_first_run(ended: tuple[Path, str], corpora: Path, tmp_path: Path) -> None:
    folder, _ = ended
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    other = [word if not word.startswith("until.margin") else "until.margin=1e-8" for word in OPEN]
    code, _, errors = finish(start(other, corpora, copy))
    assert code == 2
    assert "margin: 1e-09 there, 1e-08 now" in errors
    assert len(errors.strip().splitlines()) == 1
    succeed(start([*other, "force=true"], corpora, copy))
    fresh = manifest(copy, "s.2")["plan"]
    assert fresh["seeds"] == [3, 4, 5], "seeds whose results are known are no evidence for a new plan"
    assert manifest(copy)["plan"]["margin"] == 1e-9
    assert len(results(copy)) == 12


@pytest.mark.slow
def test_runs_of_another_sweep_are_taken_over(ended: tuple[Path, str], corpora: Path, tmp_path: Path) -> None:
    folder, output = ended
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    again = succeed(start([*OPEN, "sweep=second"], corpora, copy))
    links = [path for path in (copy / "second").iterdir() if path.is_symlink()]
    assert len(links) == 6
    assert again.count("taken over: ") == 6
    assert states(again) == states(output)


@pytest.mark.slow
@pytest.mark.parametrize("moment", range(2))
def test_a_sweep_that_is_killed_ends_in_the_same_verdict(
    moment: int, ended: tuple[Path, str], corpora: Path, tmp_path: Path
) -> None:
    """SIGKILL of the launcher, by which its arms end, at a random moment; then the same command."""
    folder, output = ended
    command = start(OPEN, corpora, tmp_path)
    wait_for(lambda: list(tmp_path.glob("s/*/status.json")))
    time.sleep(random.Random(moment).uniform(0, 4))
    command.kill()
    finish(command)
    wait_for(lambda: not alive(tmp_path))
    again = succeed(start(OPEN, corpora, tmp_path))
    assert states(again) == states(output)
    assert results(tmp_path) == results(folder)


@pytest.mark.slow
def test_two_processes_on_one_folder_reach_one_verdict(ended: tuple[Path, str], corpora: Path, tmp_path: Path) -> None:
    """As two machines that share a disk: each waits for the runs of the other, and both look at the same ones."""
    folder, output = ended
    commands = [start(OPEN, corpora, tmp_path) for _ in range(2)]
    for shown in [succeed(command) for command in commands]:
        assert states(shown) == states(output)
    assert results(tmp_path) == results(folder)
    assert not [path for path in (tmp_path / "s").iterdir() if re.search(r"\.\d+$", path.name)], "trained twice"


@pytest.mark.slow
def test_hours_are_a_budget_that_is_reckoned_once(corpora: Path, tmp_path: Path) -> None:
    """A few steps of each arm say what a run takes. The same command goes on with the same plan, however long they take
    the next time.
    """
    words = [word for word in OPEN if not word.startswith("until.looks")]
    code, _, errors = finish(start([*words, "until.hours=1e-9"], corpora, tmp_path))
    assert code == 2
    assert "until.hours=1e-09: expected enough for 2 seeds of each of 2 arms" in errors
    hours = 0.02
    succeed(start([*words, f"until.hours={hours}", "until.seeds=2"], corpora, tmp_path))
    content = manifest(tmp_path)
    assert (content["plan"]["hours"], content["plan"]["looks"]) == (hours, [2])
    content["plan"] |= {"looks": [3], "seeds": [0, 1, 2]}  # as if the machine had been quicker then
    (tmp_path / "s" / "sweep.json").write_text(json.dumps(content))
    succeed(start([*words, f"until.hours={hours}"], corpora, tmp_path))
    assert len(results(tmp_path)) == 6

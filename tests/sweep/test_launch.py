"""The options of the launcher, checked before anything is written."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from asr_ablations.runs.reader import read_sweep
from asr_ablations.runs.status import DIVERGED, DONE, FAILED
from asr_ablations.runs.sweep_history import declared, launches
from asr_ablations.sweep.arm import STOPPED, FrozenArm, State
from asr_ablations.sweep.executors import this_machine
from asr_ablations.sweep.launch import WORST, ArmsFailedError, objective, report_unfinished, run
from asr_ablations.sweep.manifest import write_manifest
from asr_ablations.tools.errors import UsageError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": 0}, r"hydra\.launcher\.timeout=0: expected minutes above 0, or null for no limit"),
        ({"timeout": True}, r"hydra\.launcher\.timeout=True: expected minutes above 0"),
        ({"timeout": "long"}, r"hydra\.launcher\.timeout=long: expected minutes above 0"),
        ({"fail_fast": "maybe"}, r"hydra\.launcher\.fail_fast=maybe: expected true or false"),
        ({"jobs": 0}, r"hydra\.launcher\.jobs=0: expected a whole number, 1 or more"),
        ({}, "arm a: gpus=3, this machine has 2"),
    ],
)
def test_wrong_values_are_named(
    options: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    arm = FrozenArm("a", "1", tmp_path / "a.yaml", tmp_path / "sweep" / "a", 3, 3, ())
    valid: dict[str, Any] = {"timeout": None, "show": None, "fail_fast": False}
    places = partial(this_machine, Path("train.py"), jobs=options.get("jobs"), per_gpu=1)
    with pytest.raises(UsageError, match=message):
        run([arm], {}, places, **{key: options.get(key, value) for key, value in valid.items()})
    assert list(tmp_path.iterdir()) == []


def launch(sweep: Path, started: str, names: str, *, search: bool = False) -> None:
    arms = [FrozenArm(name, name, sweep / "a.yaml", sweep / name, None, 1, ()) for name in names]
    write_manifest(sweep, arms, {"started": started, "command": ["train.py"], "search": search})


def test_the_manifest_keeps_every_launch_and_all_arms(tmp_path: Path) -> None:
    launch(tmp_path, "monday", "ab")
    launch(tmp_path, "tuesday", "bc")
    assert [(row["started"], row["arms"]) for row in launches(tmp_path)] == [
        ("monday", ["a", "b"]),
        ("tuesday", ["b", "c"]),
    ]
    assert [arm["id"] for arm in read_sweep(tmp_path)["arms"]] == ["a", "b", "c"]
    assert declared(tmp_path) == {"a", "b"}


def test_portions_of_one_start_are_one_launch(tmp_path: Path) -> None:
    """A search, and hydra.sweeper.max_batch_size, hand out their arms one portion after the other."""
    launch(tmp_path, "monday", "ab", search=True)
    launch(tmp_path, "monday", "bc", search=True)
    (row,) = launches(tmp_path)
    assert (row["arms"], row["search"]) == (["a", "b", "c"], True)
    assert declared(tmp_path) is None


def test_the_report_names_every_arm_that_is_not_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ends = {"a": (DONE, ""), "b": (DIVERGED, "diverged at step 7: the loss is nan"), "c": (FAILED, "exit code 3")}
    states = [
        State(FrozenArm(name, name, tmp_path, tmp_path / name, None, 1, (f"rnn={name}",)), status, reason)
        for name, (status, reason) in {**ends, "d": (STOPPED, "stopped")}.items()
    ]
    report_unfinished(states)
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "1 of 4 arms diverged, which is a result: force=true runs it again",
        "  rnn=b: diverged at step 7: the loss is nan",
    ]
    assert err.splitlines() == [
        "1 of 4 arms failed; the same command runs them again",
        "  rnn=c: exit code 3",
        f"    {states[2].arm.log}",
        "1 of 4 arms were stopped; the same command continues them",
    ]


def test_a_search_takes_a_run_that_diverged_for_the_worst_and_one_that_failed_for_an_error(tmp_path: Path) -> None:
    arm = FrozenArm("a", "a", tmp_path, tmp_path, None, 1, ())
    assert objective(State(arm, DIVERGED)) == WORST == 1.0
    with pytest.raises(ArmsFailedError):
        objective(State(arm, FAILED))

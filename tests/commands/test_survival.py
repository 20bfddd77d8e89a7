"""Sweeps that are killed, stopped, starved, repeated and shared: what is left, and what the same command does next."""

import contextlib
import csv
import json
import os
import random
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from asr_ablations.runs.status import fate_of
from tests.helpers.command import SHRUNKEN, clean_environment, run_folders
from tests.helpers.interpreter import program
from tests.helpers.processes import hold, pending, wait_for
from tests.helpers.survival import CSV, TRAIN, alive, finish, result, results, start, status, succeed

ARMS = ["rnn=lstm,gru", "seed=0,1"]
GREEDY = "model.convolutions.0.channels"
"""With 65536 of them and SLIM, the weights are small, and what the first layer makes of a batch is above LIMITS."""
SLIM = "model.convolutions.1.kernel=[1,1]"
LIMITS = {resource.RLIMIT_DATA: 3 * 2**30}


@pytest.fixture(scope="module")
def undisturbed(corpora: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """From a fresh interpreter, as its arms are: the others are forked."""
    folder = tmp_path_factory.mktemp("undisturbed")
    succeed(start([*TRAIN, CSV, *ARMS], corpora, folder, fresh=True))
    undisturbed = results(folder)
    assert len(undisturbed) == 4
    return folder, undisturbed


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["arm", "parent"])
def test_a_killed_sweep_is_finished_by_the_same_command(
    victim: str, undisturbed: tuple[Path, dict[str, Any]], corpora: Path, tmp_path: Path
) -> None:
    """SIGKILL at a random moment of one of the first three arms of four."""
    sweep = start([*TRAIN, CSV, *ARMS], corpora, tmp_path)
    started = random.randint(1, 3)
    wait_for(lambda: len(list(tmp_path.rglob("last.ckpt"))) >= started)
    time.sleep(random.uniform(0, 0.5))
    if victim == "parent":
        sweep.send_signal(signal.SIGKILL)
    else:
        arms = [p for p in alive(tmp_path) if p.pid != sweep.pid and os.getpgid(p.pid) == p.pid]
        for arm in arms[:1]:
            arm.kill()
    code, _, _ = finish(sweep)
    assert victim == "arm" or code == -signal.SIGKILL
    wait_for(lambda: not alive(tmp_path))
    succeed(start([*TRAIN, CSV, *ARMS], corpora, tmp_path))
    assert results(tmp_path) == undisturbed[1]


def test_the_same_sweep_again_trains_nothing(undisturbed: tuple[Path, dict[str, Any]], corpora: Path) -> None:
    folder, _ = undisturbed
    written = {path: path.stat().st_mtime_ns for run in run_folders(folder) for path in run.rglob("*")}
    out = succeed(start([*TRAIN, CSV, *ARMS], corpora, folder))
    assert "4 of 4 arms were already done" in out
    assert {path: path.stat().st_mtime_ns for run in run_folders(folder) for path in run.rglob("*")} == written


@pytest.mark.slow
def test_what_ran_before_an_arm_changes_nothing(
    undisturbed: tuple[Path, dict[str, Any]], corpora: Path, tmp_path: Path
) -> None:
    """The other way round, and beside one another."""
    backwards = [*TRAIN, CSV, "rnn=gru,lstm", "seed=1,0", "hydra.launcher.jobs=2"]
    succeed(start(backwards, corpora, tmp_path))
    actual = {json.loads((f / "environment.json").read_text())["id"]: result(f) for f in run_folders(tmp_path)}
    expected = {name[-8:]: content for name, content in undisturbed[1].items()}
    assert len(actual) == 4
    assert actual == {id_: expected[id_] for id_ in actual}


@pytest.mark.slow
def test_arms_that_raise_or_starve_leave_the_others_alone(corpora: Path, tmp_path: Path) -> None:
    """The loss of some is lost, and others want more memory than the limit."""
    arms = [
        "optimizer.lr=1e-3,1e30",
        f"{GREEDY}=16,65536",
    ]
    options = [SLIM, "max_epochs=1", "optimizer.weight_decay=1"]
    sweep = start([*TRAIN, CSV, *options, "seed=0", *arms], corpora, tmp_path, limits=LIMITS)
    code, _, errors = finish(sweep)
    assert code == 1
    statuses = {folder: status(folder) for folder in run_folders(tmp_path)}
    ended = sorted((t["status"], t.get("reason", "").partition(":")[0]) for t in statuses.values())
    assert ("done", "") in ended
    assert any(name == "failed" and why.startswith("diverged at step") for name, why in ended)
    assert ("failed", "out of memory") in ended, statuses
    assert "diverged" not in errors, "that is a result"
    assert "out of memory" in errors


def test_a_single_run_that_lacks_memory_ends_in_one_line(corpora: Path, tmp_path: Path) -> None:
    words = ["src/train.py", *SHRUNKEN, CSV, "sweep=s", "width=65536"]
    code, _, errors = finish(start(words, corpora, tmp_path, limits=LIMITS))
    assert code == 1, errors
    assert errors.splitlines()[-1].startswith("error: out of memory: ")
    assert "Traceback" not in errors


@pytest.mark.slow
def test_an_arm_that_hangs_is_ended_at_the_timeout(
    undisturbed: tuple[Path, dict[str, Any]], corpora: Path, tmp_path: Path
) -> None:
    """The time limit is ten times what the slowest of four longer arms took on this machine, and a little."""
    files = [(run / "overrides", run / "summary.json") for run in run_folders(undisturbed[0])]
    longest = max(last.stat().st_mtime - first.stat().st_mtime for first, last in files)
    minutes = round(0.1 + 10 * longest / 60, 2)
    options = ["max_epochs=1", "seed=0,1,2", f"hydra.launcher.timeout={minutes}"]
    sweep = start([*TRAIN, CSV, *options], corpora, tmp_path)

    def second() -> list[psutil.Process]:
        if len(list(tmp_path.rglob("last.ckpt"))) < 2:
            return []
        return [p for p in alive(tmp_path) if p.pid != sweep.pid and os.getpgid(p.pid) == p.pid]

    hold(wait_for(second)[0])
    code, _, errors = finish(sweep)
    assert code == 1
    ended = sorted((t["status"], t.get("reason", "")) for t in map(status, run_folders(tmp_path)))
    reason = f"timeout: longer than hydra.launcher.timeout={minutes:g} minutes"
    assert ended == [("done", ""), ("done", ""), ("failed", reason)]
    assert reason in errors
    wait_for(lambda: not alive(tmp_path))


@pytest.mark.slow
def test_ctrl_c_stops_arms_where_they_can_go_on(
    undisturbed: tuple[Path, dict[str, Any]], corpora: Path, tmp_path: Path
) -> None:
    sweep = start([*TRAIN, CSV, *ARMS], corpora, tmp_path)
    wait_for(lambda: list(tmp_path.rglob("last.ckpt")))
    sweep.send_signal(signal.SIGINT)
    code, _, errors = finish(sweep)
    assert code == 130
    assert "the same command continues them" in errors
    assert "Traceback" not in errors
    wait_for(lambda: not alive(tmp_path))
    succeed(start([*TRAIN, CSV, *ARMS], corpora, tmp_path))
    assert results(tmp_path) == undisturbed[1]


@pytest.mark.slow
def test_a_sweep_whose_standard_streams_are_closed_trains(corpora: Path, tmp_path: Path) -> None:
    """As a daemon starts it. Files that are opened take the numbers of what is closed."""
    words = [sys.executable, *TRAIN, CSV, "rnn=lstm,gru", "max_epochs=1", f"outputs={tmp_path}"]
    closed = ["bash", "-c", 'exec "$@" <&- >&- 2>&-', "-", *words]
    done = program(closed, clean_environment(corpora, tmp_path, OMP_NUM_THREADS="1"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [fate_of(folder).state for folder in run_folders(tmp_path)] == ["done", "done"]


@pytest.mark.slow
def test_too_few_open_files_are_one_line(corpora: Path, tmp_path: Path) -> None:
    """Of the most that the system allows; a lower limit of the shell's is lifted."""
    words = ["src/train.py", *SHRUNKEN, CSV, "workers=2", "cache=none", "max_epochs=1"]
    done = finish(start(words, corpora, tmp_path, limits={resource.RLIMIT_NOFILE: 90}))
    line = "error: workers=2: at most 90 files may be open (ulimit -n); expected 128 or more\n"
    assert (done[0], done[2]) == (2, line)


@pytest.mark.slow
@pytest.mark.parametrize("later", [signal.SIGINT, signal.SIGTERM], ids=lambda later: later.name)
@pytest.mark.parametrize("single", [True, False], ids=["run", "sweep"])
def test_one_ctrl_c_after_another_prints_no_traceback(
    single: bool, later: signal.Signals, corpora: Path, tmp_path: Path
) -> None:
    """To the whole group, as a terminal sends it, until nothing is left; then the same command goes on."""
    train = [word for word in TRAIN if word != "-m"] if single else [*TRAIN, "rnn=lstm,gru"]
    command = start([*train, CSV, "max_epochs=30"], corpora, tmp_path, fresh=True)
    wait_for(lambda: list(tmp_path.rglob("last.ckpt")))
    os.killpg(command.pid, signal.SIGINT)
    while command.poll() is None:
        time.sleep(random.uniform(0, 0.1))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(command.pid, later)
    code, out, errors = finish(command)
    assert code == 130, errors
    assert "Traceback" not in out + errors
    assert "Exception ignored" not in out + errors
    wait_for(lambda: not alive(tmp_path))
    assert {fate_of(folder).state for folder in run_folders(tmp_path)} <= {"interrupted", "missing"}
    succeed(start([*train, CSV, "max_epochs=30"], corpora, tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.5, 2.0])
def test_an_early_ctrl_c_prints_no_traceback(corpora: Path, tmp_path: Path, seconds: float) -> None:
    """While the server that starts the arms imports PyTorch, as a terminal sends it: to the whole group."""
    sweep = start([*TRAIN, CSV, *ARMS], corpora, tmp_path, fresh=True)
    process = psutil.Process(sweep.pid)
    wait_for(lambda: any("forkserver" in " ".join(child.cmdline()) for child in process.children(recursive=True)))
    time.sleep(seconds)
    os.killpg(sweep.pid, signal.SIGINT)
    code, _, errors = finish(sweep)
    assert code == 130
    assert "interrupted; the same command continues\n" in errors
    assert "Traceback" not in errors


@pytest.mark.slow
def test_a_signal_to_the_whole_group_stops_arms_where_they_can_go_on(
    undisturbed: tuple[Path, dict[str, Any]], corpora: Path, tmp_path: Path
) -> None:
    """SIGTERM as `timeout` sends it. What arms are forked from may not end first: they would count as dead, and be
    killed. An arm is held until the sweep has looked several times.
    """
    sweep = start([*TRAIN, CSV, *ARMS], corpora, tmp_path)
    checkpoint: Path = wait_for(lambda: next(tmp_path.rglob("last.ckpt"), None))
    disturbed = checkpoint.parents[1]
    arm = psutil.Process(status(disturbed)["pid"])
    hold(arm)
    os.killpg(sweep.pid, signal.SIGTERM)
    wait_for(lambda: signal.SIGTERM in pending(arm))
    time.sleep(0.5)
    arm.resume()
    code, _, errors = finish(sweep)
    assert (code, "arms were stopped; the same command continues them" in errors) == (143, True), errors
    assert status(disturbed)["reason"] == "interrupted: SIGTERM"
    assert "failed" not in errors
    wait_for(lambda: not alive(tmp_path))
    succeed(start([*TRAIN, CSV, *ARMS], corpora, tmp_path))
    assert results(tmp_path) == undisturbed[1]


@pytest.mark.slow
def test_the_first_failure_can_end_the_sweep(corpora: Path, tmp_path: Path) -> None:
    arms = [f"{GREEDY}=65536,8,16", SLIM, "max_epochs=1", "hydra.launcher.fail_fast=true", "hydra.launcher.jobs=1"]
    code, out, errors = finish(start([*TRAIN, CSV, *arms], corpora, tmp_path, limits=LIMITS))
    assert code == 1
    assert [status(folder)["status"] for folder in run_folders(tmp_path)] == ["failed"]
    assert "2 of 3 arms were stopped" in errors
    assert "Error executing job" not in errors
    assert [f"│ {GREEDY}={channels} " in out for channels in (8, 16)] == [True, True], "those that did not start"


@pytest.mark.slow
def test_two_launchers_share_one_sweep(undisturbed: tuple[Path, dict[str, Any]], corpora: Path, tmp_path: Path) -> None:
    """Each arm is trained once, and both see all done; when one is killed, the other takes its arm over."""
    one_by_one = [*TRAIN, CSV, *ARMS, "hydra.launcher.jobs=1"]
    first = start(one_by_one, corpora, tmp_path)
    second = start(one_by_one, corpora, tmp_path)
    wait_for(lambda: len(list(tmp_path.rglob("last.ckpt"))) >= 2)
    first.send_signal(signal.SIGKILL)
    finish(first)
    succeed(second)
    assert results(tmp_path) == undisturbed[1]
    sessions = [
        1 + len(json.loads((folder / "environment.json").read_text())["resumed"]) for folder in run_folders(tmp_path)
    ]
    assert sum(sessions) <= len(sessions) + 1, "only the arm of the killed launcher was started twice"
    wait_for(lambda: not alive(tmp_path))


def test_a_wrong_value_in_the_last_arm_stops_the_sweep_before_it_starts(corpora: Path, tmp_path: Path) -> None:
    code, _, errors = finish(start([*TRAIN, CSV, "model.convolutions.0.kernel=[3,3],[2,2]"], corpora, tmp_path))
    assert code == 2
    assert "arm " in errors
    assert "expected odd sizes" in errors
    assert run_folders(tmp_path) == []


@pytest.mark.slow
def test_two_ranks_beside_one_train_on_the_doubled_batch(corpora: Path, tmp_path: Path) -> None:
    """norm=none: batch norm would see half a batch in each rank."""
    same = ["norm=none", "gpus=0", "dropout=0", "optimizer=sgd", "optimizer.lr=0.01", "order=shuffled"]
    one = [*TRAIN, CSV, *same, "batch.size=8", "ranks=1"]
    succeed(start(one, corpora, tmp_path / "one"))
    succeed(start([*TRAIN, CSV, *same, "batch.size=4", "ranks=1,2"], corpora, tmp_path / "two"))
    (alone,) = run_folders(tmp_path / "one")
    two = {json.loads((f / "summary.json").read_text())["ranks"]: f for f in run_folders(tmp_path / "two")}
    assert sorted(two) == [1, 2]
    losses = [float(row["validation/dev-clean/loss"]) for row in rows(alone) if row["validation/dev-clean/loss"]]
    both = [float(row["validation/dev-clean/loss"]) for row in rows(two[2]) if row["validation/dev-clean/loss"]]
    assert both == pytest.approx(losses, rel=1e-5)


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_a_sweep_on_ray_that_is_stopped_and_then_loses_a_worker_gives_the_same_numbers(
    undisturbed: tuple[Path, dict[str, Any]], corpora: Path, tmp_path: Path
) -> None:
    """SIGTERM to the whole group, as `timeout` sends it: the arms stop, and Ray after them. An arm is held until it has
    the signal, or it might be done before.

    Then the same arms and two more, in two rounds, and SIGKILL of Ray's worker: Ray starts another one, the arm ends
    with the first, and continues there. It is held meanwhile, or it might be done before it sees that its worker is
    gone.
    """
    pytest.importorskip("ray", reason="the extra ray, which make test installs")
    command = [*TRAIN, CSV, "seed=0,1", "hydra/launcher=ray"]
    sweep = start([*command, "rnn=lstm", "hydra.launcher.jobs=1"], corpora, tmp_path)
    disturbed = wait_for(lambda: next(tmp_path.rglob("last.ckpt"), None)).parents[1]
    arm = psutil.Process(status(disturbed)["pid"])
    hold(arm)
    os.killpg(sweep.pid, signal.SIGTERM)
    wait_for(lambda: signal.SIGTERM in pending(arm))
    arm.resume()
    code, _, errors = finish(sweep)
    assert (code, "2 of 2 arms were stopped; the same command continues them" in errors) == (143, True), errors
    assert status(disturbed)["reason"] == "interrupted: SIGTERM"
    wait_for(lambda: not alive(tmp_path))

    sweep = start([*command, "rnn=lstm,gru", "hydra.sweeper.max_batch_size=2"], corpora, tmp_path)
    wait_for(lambda: status(disturbed)["status"] == "running")
    arm = psutil.Process(status(disturbed)["pid"])
    hold(arm)
    worker = arm.parent()
    worker.kill()
    wait_for(lambda: not worker.is_running())
    arm.resume()
    servers: set[int] = set()
    while sweep.poll(0.1) is None:
        servers |= {process.pid for process in alive(tmp_path, "gcs_server")}
    succeed(sweep)
    assert len(servers) == 1  # both rounds had one Ray
    wait_for(lambda: not alive(tmp_path))
    assert status(disturbed)["pid"] != arm.pid
    assert json.loads((disturbed / "environment.json").read_text())["resumed"]
    actual = {folder.name[-8:]: result(folder) for folder in run_folders(tmp_path)}
    assert actual == {name[-8:]: content for name, content in undisturbed[1].items()}
    code, out, errors = finish(start([*command, "rnn=lstm,gru"], corpora, tmp_path))
    assert (code, "4 of 4 arms were already done" in out) == (0, True), errors

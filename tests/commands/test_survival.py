"""Sweeps that are killed, stopped, starved, repeated and shared: what is left, and what the same command does next."""

import contextlib
import csv
import itertools
import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from asr_ablations.runs.status import fate_of
from tests.helpers.command import SHRUNKEN, clean_environment, run_folders
from tests.helpers.interpreter import program
from tests.helpers.processes import wait_for
from tests.helpers.survival import CSV, TRAIN, alive, finish, results, start, succeed

pytestmark = pytest.mark.slow
ARMS = "rnn=lstm,gru"
LIMITS = {resource.RLIMIT_DATA: 3 * 2**30}


@pytest.fixture(scope="module")
def undisturbed(corpora: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The results of a sweep of two arms by identity.

    Its interpreter is a fresh one, and its standard streams are closed, as a daemon starts it: files that are opened
    take the numbers of what is closed.
    """
    folder = tmp_path_factory.mktemp("undisturbed")
    words = [sys.executable, *TRAIN, CSV, ARMS, f"outputs={folder}"]
    closed = ["bash", "-c", 'exec "$@" <&- >&- 2>&-', "-", *words]
    done = program(closed, clean_environment(corpora, folder, OMP_NUM_THREADS="1"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    arms = by_identity(folder)
    assert len(arms) == 2
    return arms


def by_identity(outputs: Path) -> dict[str, Any]:
    return {name[-8:]: content for name, content in results(outputs).items()}


def test_two_launchers_share_one_sweep_and_one_takes_over_from_the_other_that_is_killed(
    undisturbed: dict[str, Any], corpora: Path, tmp_path: Path
) -> None:
    """Each arm is trained once, in the other order than the undisturbed ones, to the same bits."""
    backwards = [*TRAIN, CSV, "rnn=gru,lstm", "hydra.launcher.jobs=1"]
    first = start(backwards, corpora, tmp_path)
    second = start(backwards, corpora, tmp_path)
    wait_for(lambda: len(list(tmp_path.rglob("last.ckpt"))) >= 2)
    first.send_signal(signal.SIGKILL)
    assert finish(first)[0] == -signal.SIGKILL
    succeed(second)
    assert by_identity(tmp_path) == undisturbed
    environments = [json.loads((folder / "environment.json").read_text()) for folder in run_folders(tmp_path)]
    assert sum(len(one["resumed"]) for one in environments) <= 1, "only the killed launcher's arm was started twice"
    wait_for(lambda: not alive(tmp_path))


def test_a_single_run_that_lacks_memory_ends_in_one_line(corpora: Path, tmp_path: Path) -> None:
    words = ["src/train.py", *SHRUNKEN, CSV, "sweep=s", "width=65536"]
    code, _, errors = finish(start(words, corpora, tmp_path, limits=LIMITS))
    assert code == 1, errors
    assert errors.splitlines()[-1].startswith("error: out of memory: ")
    assert "Traceback" not in errors


def test_too_few_open_files_are_one_line(corpora: Path, tmp_path: Path) -> None:
    """Of the most that the system allows; a lower limit of the shell's is lifted."""
    words = ["src/train.py", *SHRUNKEN, CSV, "workers=2", "cache=none", "max_epochs=1"]
    done = finish(start(words, corpora, tmp_path, limits={resource.RLIMIT_NOFILE: 90}))
    line = "error: workers=2: at most 90 files may be open (ulimit -n); expected 128 or more\n"
    assert (done[0], done[2]) == (2, line)


def test_one_signal_after_another_stops_arms_where_they_can_go_on(
    undisturbed: dict[str, Any], corpora: Path, tmp_path: Path
) -> None:
    """To the whole group, as a terminal sends it, until nothing is left; then the same command goes on."""
    sweep = start([*TRAIN, CSV, ARMS], corpora, tmp_path, fresh=True)
    wait_for(lambda: list(tmp_path.rglob("last.ckpt")))
    for number in itertools.cycle([signal.SIGINT, signal.SIGINT, signal.SIGTERM]):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(sweep.pid, number)
        if sweep.poll(0.05) is not None:
            break
    code, out, errors = finish(sweep)
    assert code == 130, errors
    assert "Traceback" not in out + errors
    assert "Exception ignored" not in out + errors
    wait_for(lambda: not alive(tmp_path))
    assert {fate_of(folder).state for folder in run_folders(tmp_path)} <= {"interrupted", "missing", "done"}
    succeed(start([*TRAIN, CSV, ARMS], corpora, tmp_path))
    assert by_identity(tmp_path) == undisturbed


def test_an_early_ctrl_c_prints_no_traceback(corpora: Path, tmp_path: Path) -> None:
    """While the server that starts the arms imports PyTorch, as a terminal sends it: to the whole group."""
    sweep = start([*TRAIN, CSV, ARMS], corpora, tmp_path, fresh=True)
    process = psutil.Process(sweep.pid)
    wait_for(lambda: any("forkserver" in " ".join(child.cmdline()) for child in process.children(recursive=True)))
    os.killpg(sweep.pid, signal.SIGINT)
    code, _, errors = finish(sweep)
    assert code == 130
    assert "interrupted; the same command continues\n" in errors
    assert "Traceback" not in errors


def test_two_ranks_train_on_the_doubled_batch(corpora: Path, tmp_path: Path) -> None:
    """norm=none: batch norm would see half a batch in each rank."""
    train = ["src/train.py", *SHRUNKEN, CSV, "norm=none", "gpus=0", "dropout=0", "optimizer=sgd", "optimizer.lr=0.01"]
    losses = []
    for size, ranks in (8, 1), (4, 2):
        words = [*train, "order=shuffled", f"batch.size={size}", f"ranks={ranks}"]
        output = succeed(start(words, corpora, tmp_path / str(ranks)))
        assert output.count("run folder") == 1, "ranks make one record"
        (content,) = results(tmp_path / str(ranks)).values()
        rows = [(row["set"], row["id"]) for row in csv.DictReader(content["utterances"].splitlines())]
        assert len(rows) == len({*rows}) == 3 * 24
        losses.append([float(loss) for row in content["metrics"] if (loss := row["validation/dev-clean/loss"])])
    assert len(losses[0]) == 2
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)

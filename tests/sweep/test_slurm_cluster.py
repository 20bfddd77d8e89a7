"""The launcher of Slurm against a real Slurm of one node, where it is installed."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.helpers import slurm_cluster
from tests.helpers.command import SHORT_SPEECH, clean_environment, run_folders
from tests.helpers.interpreter import last_of_each
from tests.helpers.support import REPOSITORY

pytestmark = pytest.mark.slow
SWEEP = [
    "src/train.py", "-m", "hydra/launcher=slurm", "rnn=lstm,gru", *SHORT_SPEECH, "width=32", "layers=1", "batch.size=4",
    "max_epochs=80", "gpus=0", "logger=csv", "sweep=queued", "checkpoint_minutes=0.02",
]  # fmt: skip


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    if missing := slurm_cluster.missing():
        pytest.skip(f"not installed: {', '.join(missing)}")
    with slurm_cluster.cluster(tmp_path_factory.mktemp("slurm")) as variables:
        yield variables


class Sweep:
    """One command line, typed several times."""

    def __init__(self, folder: Path, slurm: dict[str, str]) -> None:
        self.outputs = folder / "outputs"
        self.environment = clean_environment(folder / "corpora", folder, **slurm, OMP_NUM_THREADS="1")
        self.words = [sys.executable, *SWEEP, f"outputs={self.outputs}"]

    def begin(self, *more: str) -> "subprocess.Popen[str]":
        how = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "cwd": REPOSITORY}
        return subprocess.Popen(last_of_each([*self.words, *more]), env=self.environment, **how)  # type: ignore[call-overload]

    def slurm(self, *words: str) -> str:
        return slurm_cluster.output(list(words), self.environment)

    def queue(self) -> dict[str, str]:
        """The state of each task by its number."""
        listed = self.slurm("squeue", "--array", "--noheader", "--sort=i", "--format=%F_%K %T")
        return dict(line.split() for line in listed.splitlines())


def test_a_sweep_outlives_its_command_and_a_job_its_limit(tmp_path: Path, slurm: dict[str, str]) -> None:
    def until(holds: Callable[[], object], seconds: float = 120) -> None:
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end
            time.sleep(0.2)

    (tmp_path / "corpora").mkdir()
    sweep = Sweep(tmp_path, slurm)
    sweep.slurm("scontrol", "update", "PartitionName=debug", "State=DOWN")  # else jobs may end unseen
    first = sweep.begin("hydra.launcher.detach=true", "hydra.launcher.minutes=plan")
    printed, _ = first.communicate(timeout=200)
    assert first.returncode == 0, printed
    shown = re.search(r"squeue --array --jobs=(\d+) shows them, scancel \1 ends them", printed)
    assert shown is not None, printed
    tasks = [f"{shown[1]}_{number}" for number in range(2)]
    assert [*sweep.queue()] == tasks, "one array"
    limit = re.search(r"time limit of a job: (\d+) minutes", printed)
    assert limit is not None, printed
    assert f"TimeLimit=00:{int(limit[1]):02d}:00 " in sweep.slurm("scontrol", "show", "job", "--oneliner", tasks[1])
    sweep.slurm("scontrol", "update", "PartitionName=debug", "State=UP")
    until(lambda: set(sweep.queue().values()) == {"RUNNING"})
    sweep.slurm("scontrol", "suspend", shown[1])  # else they may end before another command has begun

    second = sweep.begin()
    lines: list[str] = []
    assert second.stdout is not None
    for line in second.stdout:
        lines.append(line)
        if all(re.search(rf"job {task}\b", "".join(lines)) for task in tasks):
            break
    second.send_signal(signal.SIGINT)
    rest, _ = second.communicate(timeout=60)
    assert second.returncode == 130, "".join(lines) + rest
    assert "left with Slurm: 2 jobs; the same command attaches again" in rest
    assert sweep.queue() == dict.fromkeys(tasks, "SUSPENDED"), "Ctrl-C leaves them"
    sweep.slurm("scontrol", "resume", shown[1])

    # as before a time limit: it writes a checkpoint and is queued again
    (cut,) = (sweep.outputs / "queued").glob("rnn-lstm*")
    until(lambda: (cut / "checkpoints" / "last.ckpt").exists())
    sweep.slurm("scancel", "--signal=USR1", "--batch", tasks[0])
    until(lambda: "Restarts=1 " in sweep.slurm("scontrol", "show", "job", "--oneliner", tasks[0]))

    third = sweep.begin()
    printed, _ = third.communicate(timeout=400)
    assert third.returncode == 0, printed
    for folder in run_folders(sweep.outputs):
        assert json.loads((folder / "status.json").read_text())["status"] == "done"
    assert (cut / "output.log").read_text().count("trains on CPU") == 2
    assert "continues" in (cut / "output.log").read_text()

    manifest = json.loads((sweep.outputs / "queued" / "sweep.json").read_text())
    assert [arm["overrides"][0] for arm in manifest["arms"]] == ["rnn=lstm", "rnn=gru"]
    words = [sys.executable, "src/compare.py", str(sweep.outputs / "queued"), "--no-page", "--out", str(tmp_path / "c")]
    done = subprocess.run(words, cwd=REPOSITORY, env=sweep.environment, capture_output=True, text=True, check=True)
    assert "not declared" not in done.stdout
    assert "rnn=gru" in done.stdout or "gru against lstm" in done.stdout
    assert json.loads((tmp_path / "c" / "comparison.json").read_text())["baseline"] == "rnn=lstm"

"""The launcher of Slurm without a Slurm: its five commands are played here, and the script of its jobs is run."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from omegaconf import DictConfig

from asr_ablations.runs.process import child_environment
from asr_ablations.sweep import slurm
from asr_ablations.sweep.arm import FrozenArm
from asr_verdicts.errors import UsageError
from hydra_plugins.asr_ablations_launchers.plugins import SlurmLauncher
from tests.helpers.ending import end_with_parent
from tests.helpers.processes import wait_for


def test_arms_are_tasks_of_one_array_that_a_repeated_command_finds_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arm = "    print('begun', flush=True)\n    sys.exit(3) if cfg.ends else time.sleep(1e4)\n"
    (tmp_path / "train.py").write_text(f"import sys, time\n\ndef main(cfg):\n{arm}")
    (tmp_path / "scontrol").write_text("#!/bin/sh\necho $* >>requeued\nexit 1\n")
    (tmp_path / "scontrol").chmod(0o755)
    arms = []
    for name in "abc":
        (tmp_path / f"{name}.yaml").write_text(f"overrides: []\nends: {name == 'b'}\n")
        arms.append(FrozenArm(name, name, tmp_path / f"{name}.yaml", tmp_path / "sweep" / name, 0, 1, ()))
    tasks: dict[str, subprocess.Popen[str]] = {}
    ended = {"1_0": ("COMPLETED", ""), "1_1": ("CANCELLED", ""), "1_2": ("TIMEOUT", " ExitCode=0:15 "),
             "1_3": ("", "JobState=FAILED ExitCode=0:9 ")}  # fmt: skip
    asked: list[tuple[str, ...]] = []

    def answer(program: str, *words: str, given: str = "") -> "subprocess.CompletedProcess[str]":
        text = ""
        if program == "sbatch":
            asked.append(words)
            text = f"{16 + len(asked)};cluster\n"
            for number in range(int(re.findall(r"--array=0-(\d)", " ".join(words))[0]) + 1):
                task = f"{16 + len(asked)}_{number}"
                own = {"SLURM_ARRAY_TASK_ID": f"{number}", "SLURM_JOB_ID": task}
                environment = {**child_environment(), **own, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
                how = {"cwd": tmp_path, "env": environment, "text": True, "preexec_fn": end_with_parent}
                tasks[task] = subprocess.Popen(["bash", "-c", given], **how)  # type: ignore[call-overload]
        elif program == "squeue":
            states = {task: "RUNNING" if job.poll() is None else "FAILED" for task, job in tasks.items()}
            states |= {task: state for task, (state, _) in ended.items() if state}
            text = "".join(f"{task}|{state}|None\n" for task, state in states.items())
        elif program == "scontrol":
            text = ended[words[2]][1] if words[2] in ended else f" ExitCode={tasks[words[2]].poll()}:0 "
        elif program == "scancel":
            tasks[words[0]].terminate()
        return subprocess.CompletedProcess([], 0, text, "")

    monkeypatch.setattr(slurm, "_slurm", answer)
    monkeypatch.setattr(slurm, "SECONDS", 0)
    keys = {"jobs": 2, "cpus": 1, "minutes": 5, "sbatch": ["--nice"], "detach": False, "memory": "2G", "qos": None}
    places, repeated = (slurm.Slurm(tmp_path / "train.py", arms, **keys) for _ in range(2))  # type: ignore[arg-type]
    first, second, third = (places.start(arm) for arm in arms)
    assert [first.job, second.job, third.job, repeated.start(arms[0]).job] == ["17_0", "17_1", "17_2", "17_0"]
    (words,) = asked
    assert {"--array=0-2%2", "--time=5", "--mem=2G", "--requeue", "--nice"} <= {*words}
    assert "scancel 17 ends them" in places.left()
    assert [slurm.SlurmArm(places, arms[0], task).exit_code() for task in ended] == [0, 143, -15, -9]

    wait_for(lambda: all(arm.log.exists() and "begun" in arm.log.read_text() for arm in arms))
    assert (first.begun, first.exit_code(), first.place) == (True, None, "job 17_0")
    tasks["17_0"].send_signal(signal.SIGUSR1)  # as before a time limit
    third.stop()
    assert [wait_for(one.exit_code) for one in (first, second, third)] == [143, 3, 143]
    assert (tmp_path / "requeued").read_text() == "requeue 17_0\n", "what is cancelled is not queued again"
    again = slurm.Slurm(tmp_path / "train.py", arms[1:2], **keys)  # type: ignore[arg-type]
    assert again.start(arms[1]).job == "18_0", "what has failed is queued anew"
    wait_for(lambda: all(task.poll() is not None for task in tasks.values()))


def test_without_slurm_the_launcher_says_so_before_anything_is_composed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    launcher = SlurmLauncher(show=None, fail_fast=False)
    launcher.config = DictConfig({"plan": False})
    with pytest.raises(UsageError, match="sbatch is missing; run this on a machine with Slurm"):
        launcher.launch([["rnn=lstm"]], 0)

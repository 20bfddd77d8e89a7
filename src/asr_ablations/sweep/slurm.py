"""Run arms on Slurm as tasks of job arrays, which continue after the command ends.

The machines share the checkout, the data and the run folders. Each run folder records the number of its Slurm task,
which lets a repeated command find the tasks that it queued earlier. A task gets SIGUSR1 before its time limit, writes
a checkpoint and is queued again. Preempted tasks are queued again by Slurm itself.

This module calls only sbatch, squeue, scontrol, scancel and sinfo. The library submitit would read job states from
sacct, which fails if Slurm lacks an accounting database.
"""

import math
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Sequence
from getpass import getuser
from pathlib import Path

from asr_ablations.runs.process import GRACE, LAUNCHER, child_environment, command
from asr_ablations.runs.status import RESULTS, fate_of
from asr_ablations.sweep.arm import FrozenArm
from asr_ablations.sweep.runner import Places
from asr_ablations.tools.checks import is_number, switch, whole
from asr_ablations.tools.machine import visible_gpus
from asr_verdicts.errors import UsageError, choices

TASK = "slurm_task"
"""File in the run folder with the number of the run's Slurm task, such as 17_3."""
OUTPUT = ".slurm"
"""Subfolder of the sweep folder for Slurm's own output for each task."""
SECONDS = 2.0
"""Minimum seconds between calls of squeue, because Slurm's controller serves many users. One call covers all jobs."""
ANSWER = 60
"""Seconds after which a Slurm command counts as failed."""
BEFORE_THE_LIMIT = int(GRACE) + 60
"""Seconds between the signal to a job and its time limit. Slurm checks time limits once a minute."""
PLAN = "plan"
"""Value of `minutes` that estimates the time limit from measured training steps."""
WAITS = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT")
GOES_ON = ("RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT")
SCRIPT = """\
#!/bin/bash
unset {launcher}
case "$SLURM_ARRAY_TASK_ID" in
{cases}
esac
stop() {{ kill -TERM "$arm"; }}
trap 'again=1; stop' USR1
trap stop TERM
"$@" >>"$log" 2>&1 &
arm=$!
while :; do
    wait "$arm"; code=$?
    kill -0 "$arm" 2>/dev/null || break
done
[ -n "$again" ] && [ "$code" -ne 0 ] && scontrol requeue "$SLURM_JOB_ID" && sleep {grace}
exit "$code"
"""
"""The job script. It runs the arm in the background, because bash handles a signal only while it executes `wait`."""


class Slurm(Places):
    """Runs arms on Slurm.

    jobs: maximum number of an array's tasks that run at a time. cpus: number of CPUs of each rank. minutes: time limit
    of a job, `plan` to estimate it, or None for the partition's limit. options: sbatch options by name. sbatch: further
    sbatch options as typed. detach: whether the command ends once all arms are queued.
    """

    def __init__(
        self,
        script: Path,
        arms: Sequence[FrozenArm],
        *,
        jobs: int | None,
        cpus: int,
        minutes: float | str | None,
        sbatch: Sequence[str],
        detach: bool,
        **options: object,
    ) -> None:
        if jobs is not None:
            whole("hydra.launcher.jobs", jobs, 1)
        whole("hydra.launcher.cpus", cpus, 1)
        switch("hydra.launcher.detach", detach)
        if minutes not in (None, PLAN) and not (is_number(minutes) and minutes > 0):
            raise choices("hydra.launcher.minutes", minutes, "minutes above 0, plan, or null for the partition's limit")
        self.script, self.jobs, self.cpus, self.minutes, self.detach = script, jobs, cpus, minutes, detach
        self.options, self.more = {name: value for name, value in options.items() if value is not None}, sbatch
        self._to_start = {arm.id: arm for arm in arms}
        self._running: dict[str, SlurmArm] = {}
        self._queue: dict[str, tuple[str, str]] = {}
        self._looked = -math.inf

    def start(self, arm: FrozenArm) -> "SlurmArm":
        """Attach to an arm's task if it is queued or running. Otherwise queue the arm with all others of its size."""
        self._to_start.pop(arm.id, None)
        if (task := self._find_task(arm)) is None:
            alike = [
                other
                for other in self._to_start.values()
                if (other.gpus, other.ranks) == (arm.gpus, arm.ranks)
                and fate_of(other.folder).state not in RESULTS
                and self._find_task(other) is None
            ]
            task = self._submit([arm, *alike])
        self._running[arm.id] = SlurmArm(self, arm, task)
        return self._running[arm.id]

    def free(self, arm: FrozenArm) -> None:
        del self._running[arm.id]

    def left(self) -> str:
        """Return the message to print if the command ends before its Slurm jobs."""
        arrays = list(dict.fromkeys(arm.job.partition("_")[0] for arm in self._running.values()))
        return (
            f"left with Slurm: {len(self._running)} jobs; the same command attaches again\n"
            f"squeue --array --jobs={','.join(arrays)} shows them, scancel {' '.join(arrays)} ends them"
        )

    def _find_task(self, arm: FrozenArm) -> str | None:
        """Return the number of an arm's task, or None if the arm has no queued or running task."""
        try:
            task = (arm.folder / TASK).read_text()
        except FileNotFoundError:
            return None
        return task if self.look_up(task)[0] in (*WAITS, *GOES_ON) else None

    def look_up(self, task: str) -> tuple[str, str]:
        """Return a task's Slurm state and the reason why it is waiting. If squeue fails, use its previous output."""
        if time.monotonic() - self._looked > SECONDS:
            words = ("--array", f"--user={getuser()}", "--states=all", "--noheader", "--format=%F_%K|%T|%r")
            listed = _slurm("squeue", *words)
            if not listed.returncode:
                rows = (line.split("|", 2) for line in listed.stdout.splitlines())
                self._queue = {number: (state, reason) for number, state, reason in rows}
            self._looked = time.monotonic()
        return self._queue.get(task, ("", ""))

    def _submit(self, arms: Sequence[FrozenArm]) -> str:
        """Queue arms that need the same resources as the first one, and return the task of the first arm."""
        gpus = self._gpus(arms[0])
        minutes = self._limit(arms, gpus)  # nothing is written before this, because it may raise UsageError
        sweep = arms[0].folder.parent.absolute()
        (sweep / OUTPUT).mkdir(parents=True, exist_ok=True)
        cases = []
        for number, arm in enumerate(arms):
            arm.folder.mkdir(parents=True, exist_ok=True)
            line = shlex.join(command(self.script, arm.config.absolute(), arm.ranks, self.cpus))
            cases.append(f"{number}) log={shlex.quote(str(arm.log.absolute()))}; set -- {line};;")
        flags = {
            "job-name": sweep.name,
            "array": f"0-{len(arms) - 1}" + ("" if self.jobs is None else f"%{self.jobs}"),
            "output": f"{sweep / OUTPUT}/%A_%a",
            "open-mode": "append",
            "chdir": Path.cwd(),
            "signal": f"B:USR1@{BEFORE_THE_LIMIT}",
            "ntasks": 1,
            "nodes": 1,
            "cpus-per-task": self.cpus * arms[0].ranks,
            **{("mem" if name == "memory" else name): value for name, value in self.options.items()},
            **({"gres": f"gpu:{gpus}"} if gpus else {}),
            **({} if minutes is None else {"time": minutes}),
        }
        script = SCRIPT.format(launcher=LAUNCHER, cases="\n".join(cases), grace=int(GRACE))
        words = [
            "--parsable",
            "--requeue",
            *(f"--{name}={value}" for name, value in flags.items()),
            *map(str, self.more),
        ]
        done = _slurm("sbatch", *words, given=script)
        if done.returncode:
            message = " ".join(done.stderr.split()) or f"sbatch ended with {done.returncode}"
            raise UsageError(f"hydra/launcher=slurm: {message.removeprefix('sbatch: error: ')}")
        array = done.stdout.strip().partition(";")[0]
        for number, arm in enumerate(arms):
            (arm.folder / TASK).write_text(f"{array}_{number}")
            self._queue[f"{array}_{number}"] = "PENDING", ""
        return f"{array}_0"

    def _limit(self, arms: Sequence[FrozenArm], gpus: int) -> int | None:
        """Return a job's time limit in minutes, or None. Raise UsageError if estimating it needs a missing GPU."""
        if not isinstance(self.minutes, str):
            return None if self.minutes is None else max(1, round(self.minutes))
        if gpus and not visible_gpus():
            raise UsageError(
                f"hydra.launcher.minutes={PLAN}: this machine has no GPU to measure the arms on; run this command "
                f"within salloc --gres=gpu:{gpus}, or set minutes"
            )
        from asr_ablations.sweep.plan import estimate_minutes

        limit = estimate_minutes(arms, self.cpus * arms[0].ranks) + math.ceil(BEFORE_THE_LIMIT / 60)
        print(f"time limit of a job: {limit} minutes, estimated from a few training steps on this machine", flush=True)
        return limit

    def _gpus(self, arm: FrozenArm) -> int:
        """Return the number of GPUs to request for an arm. The default is one per rank if the partition has GPUs."""
        if arm.gpus is not None:
            return arm.gpus
        partition = [f"--partition={self.options['partition']}"] if "partition" in self.options else []
        return arm.ranks if "gpu" in _slurm("sinfo", "--noheader", "--format=%G", *partition).stdout else 0


class SlurmArm:
    """An arm on Slurm. job: number of the arm's task."""

    seconds = 0.0  # the launcher has no timeout on Slurm
    failure: str | None = None

    def __init__(self, places: Slurm, arm: FrozenArm, job: str) -> None:
        self.places, self.arm, self.job = places, arm, job
        self._exit_code: int | None = None

    @property
    def begun(self) -> bool:
        return self.places.look_up(self.job)[0] not in ("", *WAITS)

    @property
    def place(self) -> str:
        """The task's number, with Slurm's reason while the task is waiting."""
        state, reason = self.places.look_up(self.job)
        return f"job {self.job}" + (f" ({reason})" if state in WAITS and reason not in ("", "None") else "")

    def exit_code(self) -> int | None:
        state, _ = self.places.look_up(self.job)
        if self._exit_code is None and state not in (*WAITS, *GOES_ON):
            self._exit_code = self._read_exit_code(state)
        return self._exit_code

    def _read_exit_code(self, state: str) -> int:
        """Return an ended task's exit code. state: the final Slurm state; "" if squeue does not list the task."""
        described = _slurm("scontrol", "show", "job", self.job, "--oneliner").stdout
        if not state and (match := re.search(r"JobState=(\S+)", described)):
            state = match[1]
        if state == "COMPLETED":
            return 0
        if state in ("CANCELLED", "PREEMPTED"):
            return 128 + signal.SIGTERM
        if state not in ("FAILED", ""):
            self.failure = f"Slurm: job {self.job}: {state}"
        code = re.search(r" ExitCode=(\d+):(\d+)", described)
        return int(code[1]) or -int(code[2]) or 1 if code else 1

    def stop(self) -> None:
        """Cancel the job, which writes its checkpoint before it ends."""
        _slurm("scancel", self.job)

    def kill(self) -> None:
        if self.exit_code() is None:
            _slurm("scancel", self.job)


def _slurm(program: str, *words: str, given: str = "") -> "subprocess.CompletedProcess[str]":
    """Run a Slurm command. If it is missing or does not answer, the exit code is 1. given: text for standard input."""
    try:
        return subprocess.run(
            [program, *words],
            input=given,
            env=child_environment(),
            capture_output=True,
            text=True,
            timeout=ANSWER,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess([program, *words], 1, "", str(error))

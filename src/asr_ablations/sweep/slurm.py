"""Arms on Slurm: each is a job that outlives the command, over sbatch, squeue, scontrol and scancel alone.

The machines share the folders of the checkout, the data and the runs. A job is known by its comment, the folder of the
run: the same command finds what it has queued before. Before its time limit a job gets SIGUSR1, writes a checkpoint and
is queued again; a preempted one is queued again by Slurm.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from getpass import getuser
from pathlib import Path

from asr_ablations.runs.process import GRACE, LAUNCHER, child_environment, command
from asr_ablations.sweep.arm import FrozenArm
from asr_ablations.tools.checks import is_number, switch, whole
from asr_ablations.tools.errors import UsageError, choices

SECONDS = 2.0
"""Between two looks at the queue, for all jobs together: a controller serves many."""
ANSWER = 60
"""Seconds that a command of Slurm's has."""
BEFORE_THE_LIMIT = int(GRACE) + 60
"""Seconds before its time limit at which a job gets its signal; Slurm looks at limits once a minute."""
WAITS = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT")
GOES_ON = ("RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT")
STOPPED_EXIT_CODE = 128 + signal.SIGTERM
OPTIONS = ("partition", "account", "qos", "constraint", "memory")
"""Those of the launcher that are passed on; `memory` is Slurm's mem."""

SCRIPT = """\
#!/bin/bash
unset {launcher}
stop() {{ kill -TERM "$arm"; }}
trap 'again=1; stop' USR1
trap stop TERM
{command} &
arm=$!
while :; do
    wait "$arm"; code=$?
    kill -0 "$arm" 2>/dev/null || break
done
[ -n "$again" ] && [ "$code" -ne 0 ] && scontrol requeue "$SLURM_JOB_ID" && sleep {grace}
exit "$code"
"""
"""Bash handles a signal while it waits, and not while a program runs in its foreground."""


@dataclass(frozen=True)
class Job:
    """A line of the queue. folder: of the run; reason: why it waits, as Slurm words it."""

    id: str
    state: str
    reason: str
    folder: str


class Slurm:
    """Places on Slurm. jobs: the most arms that are queued or running at a time, None for all; cpus: of each rank;
    minutes: the time limit of a job, None for the partition's; options: by the names of OPTIONS; more: further options
    of sbatch; detach: leave at once. Raises UsageError for values out of range, and where there is no Slurm.
    """

    def __init__(
        self,
        script: Path,
        *,
        jobs: int | None,
        cpus: int,
        minutes: float | None,
        options: dict[str, object],
        more: Sequence[str],
        detach: bool,
    ) -> None:
        for program in ("sbatch", "squeue", "scontrol", "scancel"):
            if shutil.which(program) is None:
                raise UsageError(f"hydra/launcher=slurm: there is no {program} here; type it where Slurm is installed")
        if jobs is not None:
            whole("hydra.launcher.jobs", jobs, 1)
        whole("hydra.launcher.cpus", cpus, 1)
        switch("hydra.launcher.detach", detach)
        if minutes is not None and not (is_number(minutes) and minutes > 0):
            raise choices("hydra.launcher.minutes", minutes, "minutes above 0, or null for the partition's limit")
        self.script, self.jobs, self.cpus, self.minutes, self.detach = script, jobs, cpus, minutes, detach
        self.options, self.more = {name: value for name, value in options.items() if value is not None}, more
        self._running: dict[str, SlurmArm] = {}
        self._queue: dict[str, Job] = {}
        self._looked = -float("inf")
        self._has_gpus: bool | None = None

    def start(self, arm: FrozenArm) -> "SlurmArm | None":
        """Queue an arm, or take over its job that waits or runs already."""
        queued = self.job_of(arm)
        if queued is None and self.jobs is not None and len(self._running) >= self.jobs:
            return None
        job = queued.id if queued is not None else self._submit(arm)
        self._running[arm.id] = SlurmArm(self, arm, job)
        return self._running[arm.id]

    def free(self, arm: FrozenArm) -> None:
        self._running.pop(arm.id, None)

    def left(self) -> str:
        """What to print where the command ends before its jobs."""
        ids = " ".join(arm.job for arm in self._running.values())
        return (
            f"left with Slurm: {len(self._running)} jobs; the same command attaches again\n"
            f"squeue --jobs={ids.replace(' ', ',')} shows them, scancel {ids} ends them"
        )

    def job_of(self, arm: FrozenArm) -> Job | None:
        """The job of an arm that waits or runs."""
        folder = str(arm.folder.absolute())
        alive = [job for job in self.queue().values() if job.folder == folder and job.state in (*WAITS, *GOES_ON)]
        return alive[-1] if alive else None

    def queue(self) -> dict[str, Job]:
        """The user's jobs by id, those that have ended lately among them. An old answer where none comes."""
        if time.monotonic() - self._looked > SECONDS:
            listed = _slurm("squeue", f"--user={getuser()}", "--states=all", "--noheader", "--format=%A|%T|%r|%k")
            if not listed.returncode:
                jobs = (Job(*line.split("|", 3)) for line in listed.stdout.splitlines() if line.count("|") >= 3)
                self._queue = {job.id: job for job in jobs}
            self._looked = time.monotonic()
        return self._queue

    def _submit(self, arm: FrozenArm) -> str:
        arm.folder.mkdir(parents=True, exist_ok=True)
        threads = self.cpus * arm.ranks
        line = shlex.join(command(self.script, arm.config.absolute(), arm.ranks, self.cpus))
        words = {
            "job-name": arm.name,
            "comment": arm.folder.absolute(),
            "output": arm.log.absolute(),
            "open-mode": "append",
            "chdir": Path.cwd(),
            "signal": f"B:USR1@{BEFORE_THE_LIMIT}",
            "ntasks": 1,
            "nodes": 1,
            "cpus-per-task": threads,
            **{("mem" if name == "memory" else name): value for name, value in self.options.items()},
        }
        if self.minutes is not None:
            words["time"] = max(1, round(self.minutes))
        if gpus := self._gpus(arm):
            words["gres"] = f"gpu:{gpus}"
        flags = [f"--{name}={value}" for name, value in words.items()]
        script = SCRIPT.format(launcher=LAUNCHER, command=line, grace=int(GRACE))
        done = _slurm(
            "sbatch", "--parsable", "--requeue", *flags, *self.more, given=script, environment=child_environment()
        )
        if done.returncode:
            message = " ".join(done.stderr.split()) or f"sbatch ended with {done.returncode}"
            raise UsageError(f"hydra/launcher=slurm: {message.removeprefix('sbatch: error: ')}")
        job = done.stdout.strip().partition(";")[0]
        self._queue[job] = Job(job, "PENDING", "", str(arm.folder.absolute()))
        return job

    def _gpus(self, arm: FrozenArm) -> int:
        """How many to ask for: by default one for each rank, where the partition has any."""
        if arm.gpus is not None:
            return arm.gpus
        if self._has_gpus is None:
            partition = [f"--partition={self.options['partition']}"] if "partition" in self.options else []
            self._has_gpus = "gpu" in _slurm("sinfo", "--noheader", "--format=%G", *partition).stdout
        return arm.ranks if self._has_gpus else 0


class SlurmArm:
    """A job, as its sweep sees it."""

    memory_kills = 0
    seconds = 0.0
    failure: str | None = None

    def __init__(self, places: Slurm, arm: FrozenArm, job: str) -> None:
        self.places, self.arm, self.job = places, arm, job
        self._ended: int | None = None

    @property
    def begun(self) -> bool:
        job = self.places.queue().get(self.job)
        return job is not None and job.state not in WAITS

    @property
    def place(self) -> str:
        """The job's number, and why it waits."""
        job = self.places.queue().get(self.job)
        waits = job is not None and job.state in WAITS and job.reason not in ("", "None")
        return f"job {self.job}" + (f" ({job.reason})" if job is not None and waits else "")

    def exit_code(self) -> int | None:
        if self._ended is None:
            job = self.places.queue().get(self.job)
            if job is None or job.state not in (*WAITS, *GOES_ON):
                self._ended = self._code("" if job is None else job.state)
        return self._ended

    def _code(self, state: str) -> int:
        """The exit code of a job in a final state; "" for one that the controller has forgotten."""
        shown = _slurm("scontrol", "show", "job", self.job, "--oneliner").stdout
        state = state or (match[1] if (match := re.search(r"JobState=(\S+)", shown)) else "")
        if state == "COMPLETED":
            return 0
        if state in ("CANCELLED", "PREEMPTED"):
            return STOPPED_EXIT_CODE
        if state == "OUT_OF_MEMORY":
            self.memory_kills = 1
            return -signal.SIGKILL
        code = re.search(r" ExitCode=(\d+):(\d+)", shown)
        if state not in ("FAILED", ""):
            self.failure = f"Slurm: job {self.job}: {state}"
        if code is None:
            return 1
        return int(code[1]) or (-int(code[2]) if int(code[2]) else int(state != ""))

    def stop(self) -> None:
        """Cancel the job: it writes its checkpoint first."""
        _slurm("scancel", self.job)

    def kill(self) -> None:
        if self.exit_code() is None:
            _slurm("scancel", self.job)


def _slurm(
    program: str, *words: str, given: str = "", environment: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """A command of Slurm's. One that does not answer counts as one that fails."""
    try:
        return subprocess.run(
            [program, *words],
            input=given,
            env=environment or {**os.environ},
            capture_output=True,
            text=True,
            timeout=ANSWER,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess([program, *words], 1, "", str(error))

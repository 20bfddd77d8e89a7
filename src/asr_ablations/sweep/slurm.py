"""Arms on Slurm: each is a task of a job array that outlives the command, over sbatch, squeue, scontrol and scancel
alone.

The machines share the folders of the checkout, the data and the runs. An array's comment is a folder with a link for
each task to the log of its run, into which Slurm writes: so the same command finds what it has queued before. Before
its time limit a task gets SIGUSR1, writes a checkpoint and is queued again; a preempted one is queued again by Slurm.
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
from math import ceil
from pathlib import Path
from tempfile import mkdtemp

from asr_ablations.runs.process import GRACE, LAUNCHER, child_environment, command
from asr_ablations.runs.status import RESULTS, fate_of
from asr_ablations.sweep.arm import FrozenArm
from asr_ablations.tools.checks import is_number, switch, whole
from asr_ablations.tools.machine import visible_gpus
from asr_verdicts.errors import UsageError, choices

ARRAYS = ".slurm"
"""A folder in the sweep's, with one of links for each array."""
SECONDS = 2.0
"""Between two looks at the queue, for all jobs together: a controller serves many."""
ANSWER = 60
"""Seconds that a command of Slurm's has."""
BEFORE_THE_LIMIT = int(GRACE) + 60
"""Seconds before its time limit at which a job gets its signal; Slurm looks at limits once a minute."""
PLAN = "plan"
"""The value of `minutes` that takes the time limit from measured steps."""
WAITS = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT")
GOES_ON = ("RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT")
STOPPED_EXIT_CODE = 128 + signal.SIGTERM
OPTIONS = ("partition", "account", "qos", "constraint", "memory")
"""Those of the launcher that are passed on; `memory` is Slurm's mem."""

MOST_TASKS = 1000
"""Of an array, as Slurm is set up by default."""

SCRIPT = """\
#!/bin/bash
unset {launcher}
case "$SLURM_ARRAY_TASK_ID" in
{cases}
esac
stop() {{ kill -TERM "$arm"; }}
trap 'again=1; stop' USR1
trap stop TERM
"$@" &
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
class SlurmTask:
    """A task in the queue. id: as 17_3; folder: of the run; reason: why it waits, as Slurm words it."""

    id: str
    state: str
    reason: str
    folder: str


class Slurm:
    """Places on Slurm. arms: of the sweep; jobs: the most tasks of an array that run at a time, None for all; cpus: of
    each rank; minutes: the time limit of a task, `plan` to measure it, None for the partition's; options: by the names
    of OPTIONS; more: further options of sbatch; detach: leave at once. Raises UsageError for values out of range, and
    where there is no Slurm.
    """

    def __init__(
        self,
        script: Path,
        arms: Sequence[FrozenArm],
        *,
        jobs: int | None,
        cpus: int,
        minutes: float | str | None,
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
        if minutes not in (None, PLAN) and not (is_number(minutes) and minutes > 0):
            raise choices("hydra.launcher.minutes", minutes, "minutes above 0, plan, or null for the partition's limit")
        self.script, self.jobs, self.cpus, self.minutes, self.detach = script, jobs, cpus, minutes, detach
        self.options, self.more = {name: value for name, value in options.items() if value is not None}, more
        self._to_start = {arm.id: arm for arm in arms}
        self._tasks: dict[str, str] = {}  # by the arm's id: of arms that were queued with another
        self._running: dict[str, SlurmArm] = {}
        self._queue: dict[str, SlurmTask] = {}
        self._folders: dict[Path, str] = {}
        self._looked = -float("inf")
        self._has_gpus: bool | None = None

    def start(self, arm: FrozenArm) -> "SlurmArm":
        """Queue an arm, and with it all others that need as much, or take over its task that waits or runs already."""
        self._to_start.pop(arm.id, None)
        task = self._tasks.pop(arm.id, None) or self._task_of(arm)
        if task is None:
            self._submit([arm, *self._alike(arm)][:MOST_TASKS])
            task = self._tasks.pop(arm.id)
        self._running[arm.id] = SlurmArm(self, arm, task)
        return self._running[arm.id]

    def _alike(self, arm: FrozenArm) -> list[FrozenArm]:
        """The arms that are still to be started, need as many GPUs and processes, and are not queued already."""
        return [
            other
            for other in self._to_start.values()
            if (other.gpus, other.ranks) == (arm.gpus, arm.ranks)
            and fate_of(other.folder).state not in RESULTS
            and other.id not in self._tasks
            and self._task_of(other) is None
        ]

    def free(self, arm: FrozenArm) -> None:
        self._running.pop(arm.id, None)

    def left(self) -> str:
        """What to print where the command ends before its jobs."""
        arrays = list(dict.fromkeys(arm.job.partition("_")[0] for arm in self._running.values()))
        return (
            f"left with Slurm: {len(self._running)} jobs; the same command attaches again\n"
            f"squeue --array --jobs={','.join(arrays)} shows them, scancel {' '.join(arrays)} ends them"
        )

    def _task_of(self, arm: FrozenArm) -> str | None:
        """The task of an arm that waits or runs."""
        folder = str(arm.folder.absolute())
        alive = [job for job in self.queue().values() if job.folder == folder and job.state in (*WAITS, *GOES_ON)]
        return alive[-1].id if alive else None

    def queue(self) -> dict[str, SlurmTask]:
        """The user's tasks by id, those that have ended lately among them. An old answer where none comes."""
        if time.monotonic() - self._looked > SECONDS:
            user = f"--user={getuser()}"
            listed = _slurm("squeue", "--array", user, "--states=all", "--noheader", "--format=%F|%K|%T|%r|%k")
            if not listed.returncode:
                self._queue = {job.id: job for job in map(self._read, listed.stdout.splitlines())}
            self._looked = time.monotonic()
        return self._queue

    def _read(self, line: str) -> SlurmTask:
        """A line of squeue. A job of another origin has no folder."""
        array, task, state, reason, links = (*line.split("|", 4), "", "", "", "")[:5]
        link = Path(links, task)
        if link not in self._folders and link.is_symlink():
            self._folders[link] = str(Path(os.readlink(link)).parent)
        return SlurmTask(f"{array}_{task}", state, reason, self._folders.get(link, ""))

    def _submit(self, arms: Sequence[FrozenArm]) -> None:
        """Queue arms that need as much as the first."""
        gpus = self._gpus(arms[0])
        minutes = self._limit(arms, gpus)  # before anything is written: it may be refused
        sweep = arms[0].folder.parent.absolute()
        (sweep / ARRAYS).mkdir(parents=True, exist_ok=True)
        links = Path(mkdtemp(dir=sweep / ARRAYS))
        cases = []
        for task, arm in enumerate(arms):
            arm.folder.mkdir(parents=True, exist_ok=True)
            (links / str(task)).symlink_to(arm.log.absolute())
            line = shlex.join(command(self.script, arm.config.absolute(), arm.ranks, self.cpus))
            cases.append(f"{task}) set -- {line};;")
        words = {
            "job-name": sweep.name,
            "array": f"0-{len(arms) - 1}" + ("" if self.jobs is None else f"%{self.jobs}"),
            "comment": links,
            "output": f"{links}/%a",
            "open-mode": "append",
            "chdir": Path.cwd(),
            "signal": f"B:USR1@{BEFORE_THE_LIMIT}",
            "ntasks": 1,
            "nodes": 1,
            "cpus-per-task": self.cpus * arms[0].ranks,
            **{("mem" if name == "memory" else name): value for name, value in self.options.items()},
        }
        if gpus:
            words["gres"] = f"gpu:{gpus}"
        if minutes is not None:
            words["time"] = minutes
        flags = [f"--{name}={value}" for name, value in words.items()]
        script = SCRIPT.format(launcher=LAUNCHER, cases="\n".join(cases), grace=int(GRACE))
        done = _slurm(
            "sbatch", "--parsable", "--requeue", *flags, *self.more, given=script, environment=child_environment()
        )
        if done.returncode:
            shutil.rmtree(links)
            message = " ".join(done.stderr.split()) or f"sbatch ended with {done.returncode}"
            raise UsageError(f"hydra/launcher=slurm: {message.removeprefix('sbatch: error: ')}")
        array = done.stdout.strip().partition(";")[0]
        for task, arm in enumerate(arms):
            self._tasks[arm.id] = f"{array}_{task}"
            self._queue[f"{array}_{task}"] = SlurmTask(f"{array}_{task}", "PENDING", "", str(arm.folder.absolute()))

    def _limit(self, arms: Sequence[FrozenArm], gpus: int) -> int | None:
        """The time limit in minutes; None for the partition's. Raises UsageError where it cannot be measured here."""
        if not isinstance(self.minutes, str):
            return None if self.minutes is None else max(1, round(self.minutes))
        if gpus and not visible_gpus():
            raise UsageError(
                f"hydra.launcher.minutes={PLAN}: the arms run on GPUs, and this machine, which is to measure them, has "
                f"none; type it within salloc --gres=gpu:{gpus}, or give minutes"
            )
        from asr_ablations.sweep.plan import minutes_of

        limit = minutes_of(arms, self.cpus * arms[0].ranks) + ceil(BEFORE_THE_LIMIT / 60)
        print(f"time limit of a job: {limit} minutes, by some steps of the arms on this machine", flush=True)
        return limit

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

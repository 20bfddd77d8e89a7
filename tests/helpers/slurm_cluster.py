"""A real Slurm of one node on the loopback address, where Debian's slurm-wlm and munge are installed."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from getpass import getuser
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel", "sinfo")
PLACES = ("/usr/sbin",)
"""Where the daemons are beside the path."""
CONFIG = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={controller}
SlurmdPort={daemon}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SchedulerParameters=sched_interval=1,batch_sched_delay=0
KillWait=30
InactiveLimit=0
JobRequeue=1
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=debug Nodes={host} Default=YES MaxTime=60 State=UP
"""


def path() -> str:
    """A PATH with Slurm's programs."""
    return os.pathsep.join([os.environ.get("PATH", ""), *PLACES])


def missing() -> list[str]:
    """The programs that are not installed."""
    if os.geteuid():
        return ["root, for which its daemons run"]
    return [program for program in PROGRAMS if shutil.which(program, path=path()) is None]


@contextmanager
def cluster(folder: Path, cpus: int = 2) -> Iterator[dict[str, str]]:
    """Start it, and yield the variables of a command that uses it."""
    host = socket.gethostname().partition(".")[0]
    with socket.socket() as first, socket.socket() as second:
        for one in (first, second):
            one.bind(("127.0.0.1", 0))
        ports = {"controller": first.getsockname()[1], "daemon": second.getsockname()[1]}
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    folder.chmod(0o755)
    config = folder / "slurm.conf"
    config.write_text(CONFIG.format(host=host, user=getuser(), folder=folder, cpus=cpus, **ports))
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    variables = {"PATH": path(), "SLURM_CONF": str(config)}
    environment = {**os.environ, **variables}
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> None:
        program = shutil.which(words[0], path=path())
        assert program is not None
        with (folder / f"{words[0]}.out").open("wb") as out:
            started.append(subprocess.Popen([program, *words[1:]], env=environment, stdout=out, stderr=out))

    try:
        own = [f"--{name}-file={folder}/munge.{name}" for name in ("pid", "seed", "log")]
        start(
            "munged", "--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={key}",
            *own,
        )  # fmt: skip
        _wait(lambda: (folder / "munge.socket").exists(), folder)
        start("slurmctld", "-D", "-f", str(config))
        start("slurmd", "-D", "-f", str(config), "-N", host)
        _wait(lambda: "idle" in output(["sinfo", "--noheader", "--format=%T"], environment), folder)
        yield variables
    finally:
        for process in reversed(started):
            process.terminate()
        for process in reversed(started):
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()


def output(words: list[str], environment: dict[str, str]) -> str:
    program = shutil.which(words[0], path=path())
    assert program is not None
    done = subprocess.run(
        [program, *words[1:]], env=environment, capture_output=True, text=True, timeout=30, check=False
    )
    return done.stdout


def _wait(ready: Callable[[], bool], folder: Path) -> None:
    for _ in range(300):
        if ready():
            return
        time.sleep(0.1)
    logs = {
        file.name: file.read_text(errors="replace")[-1500:] for file in [*folder.glob("*.out"), *folder.glob("*.log")]
    }
    raise AssertionError(f"Slurm did not start: {logs}")

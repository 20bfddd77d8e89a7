"""One process at a run at a time, whatever dies."""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from asr_ablations.runs import lease
from asr_ablations.runs.layout import LEASES
from asr_ablations.runs.lease import Lease, LeaseHeldError, owner
from asr_ablations.runs.process import LAUNCHER
from asr_ablations.tools.watchdog import start_of, when_gone
from tests.helpers.ending import end_with_parent

HOLD = """
import sys, time
from pathlib import Path
from asr_ablations.runs.lease import Lease
Lease(Path(sys.argv[1]), lost=lambda: None).take()
print("taken", flush=True)
time.sleep(600)
"""
FOLLOW = """
import time
from asr_ablations.runs.process import follow_launcher
follow_launcher()
time.sleep(1)
print("still running", flush=True)
time.sleep(600)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run"


def taken(folder: Path) -> Lease:
    own = Lease(folder, lost=lambda: None)
    own.take()
    return own


def as_if(folder: Path, **changes: object) -> Path:
    """The lease in force, with other content, and no holder that would keep touching it."""
    (path,) = [p for p in (folder.parent / LEASES).iterdir() if not p.name.startswith(".")]
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return path


def test_a_lease_keeps_others_out_until_it_is_released(folder: Path) -> None:
    first = taken(folder)
    with pytest.raises(LeaseHeldError, match=f"process {os.getpid()} on"):
        taken(folder)
    assert owner(folder) is not None
    first.release()
    assert owner(folder) is None
    taken(folder).release()


def test_a_killed_holder_is_taken_over_at_once(folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, env=environment, preexec_fn=end_with_parent
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"taken\n"
    with pytest.raises(LeaseHeldError):
        taken(folder)
    holder.kill()
    holder.wait()
    holder.stdout.close()
    taken(folder).release()


def test_a_killed_holder_that_nobody_reaps_is_taken_over_at_once(folder: Path) -> None:
    """A container without an init leaves zombies; a worker that was forked outlives its parent for some seconds."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    forks = HOLD.replace("time.sleep(600)", "import os\nos.fork() or time.sleep(20)\ntime.sleep(600)")
    holder = subprocess.Popen(
        [sys.executable, "-c", forks, str(folder)], stdout=subprocess.PIPE, env=environment, start_new_session=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"taken\n"
    holder.kill()
    os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
    assert psutil.Process(holder.pid).status() == psutil.STATUS_ZOMBIE
    taken(folder).release()
    os.killpg(holder.pid, signal.SIGKILL)
    holder.wait()
    holder.stdout.close()


CONTAINER = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]


@pytest.mark.skipif(
    subprocess.run([*CONTAINER, "true"], capture_output=True).returncode != 0, reason="no namespaces here"
)
def test_a_holder_in_a_container_keeps_others_out_though_its_process_is_not_seen(folder: Path) -> None:
    """Two containers of one host name on one folder, and a /proc that hides the processes of others, look the same."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    holder = subprocess.Popen(
        [*CONTAINER, sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, env=environment,
        preexec_fn=end_with_parent,
    )  # fmt: skip
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"taken\n"
    (path,) = [p for p in (folder.parent / LEASES).iterdir() if not p.name.startswith(".")]
    assert not psutil.pid_exists(json.loads(path.read_text())["pid"]) or json.loads(path.read_text())["pid"] < 10
    with pytest.raises(LeaseHeldError, match="is working on it"):
        taken(folder)
    holder.kill()
    holder.wait()
    holder.stdout.close()


def test_a_stopped_holder_is_no_dead_one_whatever_the_clock_says(folder: Path) -> None:
    first = taken(folder)
    assert first._path is not None
    for seconds in (-lease.EXPIRY * 10, 86400):
        now = time.time() + seconds
        os.utime(first._path, (now, now))
        with pytest.raises(LeaseHeldError):
            taken(folder)
    first.release()


def no_locks(*ignored: object) -> None:
    raise OSError(errno.ENOLCK, "No locks available")


def test_without_locks_the_heartbeat_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease.fcntl, "flock", no_locks)
    monkeypatch.setattr(lease, "HEARTBEAT", 0.1)
    first = taken(folder)
    with pytest.raises(LeaseHeldError):
        taken(folder)
    first._stop.set()  # as if it had been killed
    assert first._heartbeat is not None
    first._heartbeat.join()
    assert first._path is not None
    silent = time.time() - lease.EXPIRY - 1
    os.utime(first._path, (silent, silent))
    taken(folder).release()


@pytest.mark.parametrize("ahead", [-2 * lease.EXPIRY, 86400.0], ids=["set forward", "set back"])
def test_a_clock_that_was_set_decides_nothing(folder: Path, ahead: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A holder on another machine is alive as long as its lease is touched, and dead once it is not."""
    monkeypatch.setattr(lease, "HEARTBEAT", 0.5)
    monkeypatch.setattr(lease, "EXPIRY", 2.0)
    taken(folder).release()
    path = as_if(folder, released=False, host="elsewhere")
    stop = threading.Event()

    def beat() -> None:
        for count in range(10**6):
            os.utime(path, (time.time() + ahead + count, time.time() + ahead + count))
            if stop.wait(0.05):
                return

    holder = threading.Thread(target=beat)
    holder.start()
    with pytest.raises(LeaseHeldError, match="on elsewhere"):
        taken(folder)
    stop.set()
    holder.join()
    taken(folder).release()


def test_the_start_of_a_process_does_not_move_with_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """psutil adds the time of boot, which moves when the clock is set: every arm would stop."""
    started = start_of(os.getpid())
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: started + 30)
    assert start_of(os.getpid()) == started
    gone = threading.Event()
    when_gone(os.getpid(), started, gone.set)
    assert not gone.wait(1)
    when_gone(os.getpid(), started - 1, gone.set)  # a later process with the same id
    assert gone.wait(10)


def test_a_holder_on_another_machine_is_dead_after_its_lease_expires(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken(folder).release()
    monkeypatch.setattr(lease, "HEARTBEAT", 0.05)
    path = as_if(folder, released=False, host="elsewhere")
    with pytest.raises(LeaseHeldError, match="on elsewhere is working on it"):
        taken(folder)
    silent = path.stat().st_mtime - lease.EXPIRY - 1
    os.utime(path, (silent, silent))
    taken(folder).release()


def test_of_many_who_take_over_one_wins(folder: Path) -> None:
    """Twenty rounds of eight threads that all see the same dead holder."""
    for _ in range(20):
        winners, losers = [], []
        barrier = threading.Barrier(8)

        def take(barrier: threading.Barrier = barrier, winners: list = winners, losers: list = losers) -> None:
            mine = Lease(folder, lost=lambda: None)
            barrier.wait()
            try:
                mine.take()
            except LeaseHeldError:
                losers.append(mine)
            else:
                winners.append(mine)

        threads = [threading.Thread(target=take) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(winners), len(losers)) == (1, 7)
        winners[0].release()


def test_a_holder_that_slept_too_long_learns_that_it_lost(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "HEARTBEAT", 0.01)
    lost = threading.Event()
    sleeper = Lease(folder, lost=lost.set)
    sleeper.take()
    path = folder.parent / LEASES / f"{folder.name}.000002"
    path.write_text(json.dumps({}))
    assert lost.wait(30)
    sleeper.release()


def test_an_arm_stops_when_its_launcher_is_killed_and_not_before() -> None:
    """The launcher stays a zombie, as one does in a container where no process reaps it."""
    launcher = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, preexec_fn=end_with_parent)
    started = start_of(launcher.pid)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), LAUNCHER: f"{launcher.pid}:{started}"}
    arm = subprocess.Popen(
        [sys.executable, "-c", FOLLOW], stdout=subprocess.PIPE, env=environment, preexec_fn=end_with_parent
    )
    assert arm.stdout is not None
    assert launcher.stdin is not None
    with arm.stdout, launcher.stdin:
        assert arm.stdout.readline() == b"still running\n"
        launcher.kill()
        assert arm.wait(60) == -signal.SIGTERM
    launcher.wait()

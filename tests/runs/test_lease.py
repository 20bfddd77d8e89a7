"""One process at a run at a time, whatever dies."""

import errno
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from asr_ablations.runs import lease
from asr_ablations.runs.layout import LEASES
from asr_ablations.runs.lease import Lease, LeaseHeldError, newest, owner
from asr_ablations.runs.process import LAUNCHER
from asr_ablations.tools import signals
from asr_ablations.tools.signals import start_of
from tests.helpers.ending import end_with_parent

HOLD = """
import sys, time
from pathlib import Path
from asr_ablations.runs.lease import Lease
Lease(Path(sys.argv[1]), lost=lambda reason: None).take()
print("taken", flush=True)
time.sleep(600)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run"


def taken(folder: Path) -> Lease:
    own = Lease(folder, lost=lambda reason: None)
    own.take()
    return own


def holder(folder: Path, *before: str) -> subprocess.Popen[bytes]:
    """A process that holds the run, started by the words `before`."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [*before, sys.executable, "-c", HOLD, str(folder)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, env=environment, preexec_fn=end_with_parent)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"taken\n"
    return process


def test_a_lease_keeps_others_out_until_it_is_released_or_its_holder_killed(folder: Path) -> None:
    first = taken(folder)
    with pytest.raises(LeaseHeldError, match=f"process {os.getpid()} on"):
        taken(folder)
    assert owner(folder) is not None
    first.release()
    assert owner(folder) is None
    process = holder(folder)
    with pytest.raises(LeaseHeldError):
        taken(folder)
    process.kill()
    process.wait()
    taken(folder).release()


NAMESPACE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


@pytest.mark.skipif(
    shutil.which("unshare") is None or bool(subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode),
    reason="namespaces of processes are not allowed here",
)
def test_a_holder_whose_process_cannot_be_seen_from_here_holds_until_it_ends(folder: Path) -> None:
    """As two containers with the host's name have it, and /proc that hides other users' processes."""
    process = holder(folder, *NAMESPACE)
    assert json.loads(newest(folder.parent / LEASES, folder.name)[1].read_text())["pid"] < 10  # of its namespace
    with pytest.raises(LeaseHeldError, match="is working on it"):
        taken(folder)
    assert owner(folder) is not None
    process.kill()
    process.wait()
    until = time.monotonic() + 30
    while owner(folder) is not None and time.monotonic() < until:  # --kill-child takes a moment
        time.sleep(0.05)
    taken(folder).release()


def test_a_child_that_was_forked_does_not_hold_the_run_for_its_parent(folder: Path) -> None:
    own = taken(folder)
    (end, begin), (told, tell) = os.pipe(), os.pipe()
    if (child := os.fork()) == 0:
        os.close(begin)
        os.write(tell, b"x")
        os.read(end, 1)
        os._exit(0)
    os.read(told, 1)
    os.close(own._lock)  # as the system does when this process is killed
    own._lock = None
    assert owner(folder) is None
    os.close(begin)
    os.waitpid(child, 0)
    for file in (end, told, tell):
        os.close(file)
    own.release()


def test_without_locks_the_heartbeat_decides(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(file: object, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(lease.fcntl, "flock", fail)
    own = taken(folder)
    with pytest.raises(LeaseHeldError):
        taken(folder)
    path = newest(folder.parent / LEASES, folder.name)[1]
    for step in (3600, -3600):  # as if it was killed long ago, before the clock was set, too
        own._stop.set()
        own._heartbeat.join()
        os.utime(path, (time.time() + step, time.time() + step))
        assert owner(folder) is None
    taken(folder).release()


def test_a_holder_on_another_machine_is_dead_after_its_lease_expires(folder: Path) -> None:
    taken(folder).release()
    (path,) = [p for p in (folder.parent / LEASES).iterdir() if not p.name.startswith(".")]
    changes = {"released": False, "locked": True, "host": "elsewhere", "boot": "another"}
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
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
            mine = Lease(folder, lost=lambda reason: None)
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
    sleeper, reasons = watched(folder)
    path = folder.parent / LEASES / f"{folder.name}.000002"
    path.write_text(json.dumps({"pid": 12, "host": "elsewhere", "boot": "another", "locked": True}))
    assert reasons.get(timeout=30) == "process 12 on elsewhere is working on it"
    sleeper.release()


def watched(folder: Path) -> tuple[Lease, "queue.Queue[str]"]:
    """A lease that is held, and the reasons for which it is lost."""
    reasons: queue.Queue[str] = queue.Queue()
    own = Lease(folder, lost=reasons.put)
    own.take()
    return own, reasons


def test_a_holder_goes_on_after_an_error_of_the_file_system_and_stops_after_half_its_expiry(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "HEARTBEAT", 0.01)
    original, failures = os.utime, threading.Semaphore(0)

    def fail(*arguments: object) -> None:
        failures.release()
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    own, reasons = watched(folder)
    path = newest(folder.parent / LEASES, folder.name)[1]
    monkeypatch.setattr(lease.os, "utime", fail)
    for _ in range(3):
        assert failures.acquire(timeout=30)
    monkeypatch.setattr(lease.os, "utime", original)
    os.utime(path, (1, 1))
    until = time.monotonic() + 30
    while path.stat().st_mtime == 1 and time.monotonic() < until:
        time.sleep(0.01)
    assert path.stat().st_mtime > 1
    monkeypatch.setattr(lease, "EXPIRY", 0.2)
    monkeypatch.setattr(lease.os, "utime", fail)
    assert os.strerror(errno.ESTALE) in reasons.get(timeout=30)
    monkeypatch.undo()
    own.release()


@pytest.mark.parametrize("other", [False, True])
def test_leases_that_were_removed_are_made_again_unless_another_process_has_taken_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, other: bool
) -> None:
    monkeypatch.setattr(lease, "HEARTBEAT", 0.5)
    own, reasons = watched(folder)
    home, new = folder.parent / LEASES, folder.parent / "new"
    new.mkdir()
    content = {"pid": 12, "host": "elsewhere", "boot": "another", "locked": True}
    (new / f"{folder.name}.000001").write_text(json.dumps(content))
    home.rename(folder.parent / "removed")
    if other:
        new.rename(home)  # at once: the next heartbeat would make the lease again
        assert reasons.get(timeout=30) == "process 12 on elsewhere is working on it"
        own.release()  # and leaves the other's lease alone
        assert owner(folder) == "process 12 on elsewhere is working on it"
        return
    until = time.monotonic() + 30
    while owner(folder) is None and time.monotonic() < until:
        time.sleep(0.05)
    with pytest.raises(LeaseHeldError, match=f"process {os.getpid()} on"):
        taken(folder)
    assert reasons.empty()
    own.release()
    assert owner(folder) is None


def test_a_watchdog_that_cannot_look_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    started, looks, gone = start_of(os.getpid()), threading.Semaphore(0), threading.Event()

    def fail(pid: int) -> float:
        looks.release()
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(signals, "start_of", fail)
    signals.when_gone(os.getpid(), started, gone.set)
    assert looks.acquire(timeout=30)
    assert looks.acquire(timeout=30)
    monkeypatch.setattr(signals, "start_of", lambda pid: started + 9)  # its id belongs to another process now
    assert gone.wait(30)


def test_an_arm_stops_when_its_launcher_is_killed_and_not_before() -> None:
    """The launcher stays a zombie, as one does in a container where no process reaps it."""
    follow = """
import time
from asr_ablations.runs.process import follow_launcher
follow_launcher()
time.sleep(1)
print("still running", flush=True)
time.sleep(600)
"""
    launcher = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, preexec_fn=end_with_parent)
    started = start_of(launcher.pid)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), LAUNCHER: f"{launcher.pid}:{started}"}
    arm = subprocess.Popen(
        [sys.executable, "-c", follow], stdout=subprocess.PIPE, env=environment, preexec_fn=end_with_parent
    )
    assert arm.stdout is not None
    assert launcher.stdin is not None
    with arm.stdout, launcher.stdin:
        assert arm.stdout.readline() == b"still running\n"
        launcher.kill()
        assert arm.wait(60) == -signal.SIGTERM
    launcher.wait()


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="Linux without autogroups")
def test_a_session_of_its_own_is_as_nice_as_the_command() -> None:
    code = "import os; from asr_ablations.runs.process import keep_nice; os.setsid(); os.nice(7); keep_nice()"
    read = "print(open('/proc/self/autogroup').read())"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", f"{code}; {read}"], env=environment, capture_output=True, text=True)
    assert done.stdout.endswith("nice 7\n\n"), done.stderr

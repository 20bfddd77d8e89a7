"""One process at a run at a time, whatever dies."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from asr_ablations.runs import lease
from asr_ablations.runs.layout import LEASES
from asr_ablations.runs.lease import Lease, LeaseHeldError, owner
from asr_ablations.runs.process import LAUNCHER
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


def test_a_process_id_that_another_process_has_by_now_is_no_holder(folder: Path) -> None:
    taken(folder).release()
    as_if(folder, released=False, process_started=psutil.Process().create_time() - 100)
    taken(folder).release()


def test_a_holder_on_another_machine_is_dead_after_its_lease_expires(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken(folder).release()
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
    started = psutil.Process(launcher.pid).create_time()
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


@pytest.mark.parametrize("change", [{"pid": 2**30}, {"process_started": 0.0}, {"boot": 0.0}, {"host": "elsewhere"}])
def test_a_living_holder_is_seen_by_its_lock_whatever_hides_its_process(
    folder: Path, change: dict[str, object]
) -> None:
    """Another PID namespace, hidepid, a stepped clock, another host name in a container: none is seen by psutil."""
    holder = taken(folder)
    path = as_if(folder, **change)
    os.utime(path, (0, 0))  # not even a heartbeat
    with pytest.raises(LeaseHeldError, match="is working on it"):
        taken(folder)
    holder.release()
    taken(folder).release()


def test_a_dead_holder_that_is_not_reaped_is_taken_over_at_once(folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, env=environment, preexec_fn=end_with_parent
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"taken\n"
        holder.kill()
        os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)  # a zombie from here on
        taken(folder).release()


def test_a_worker_that_outlives_its_run_does_not_hold_it(folder: Path) -> None:
    holder = taken(folder)
    worker = os.fork()
    if not worker:
        signal.pause()
        os._exit(0)
    try:
        assert holder._lock is not None
        holder._lock.close()  # as the kernel does when a process ends
        taken(folder).release()
    finally:
        os.kill(worker, signal.SIGKILL)
        os.waitpid(worker, 0)

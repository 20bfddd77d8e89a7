"""Arms on Ray: a local one, or a cluster whose machines share the folders of the checkout, the data and the runs.

Each arm is an actor, which Ray places on a machine with enough CPUs and GPUs and starts again on another one when its
worker or its machine is lost. The arm is a process of that actor's own: it continues from its last checkpoint, under
the lease of its run.
"""

import atexit
import contextlib
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import ray

from asr_ablations.sweep.arm import FrozenArm
from asr_ablations.sweep.gpu_slots import machine_slots
from asr_ablations.sweep.remote_arm import ANSWER, Job, RemoteArm, reason
from asr_ablations.tools.checks import whole
from asr_ablations.tools.machine import cores, visible_gpus
from asr_ablations.tools.signals import held_back
from asr_verdicts.errors import UsageError, choices

ATTEMPTS = 3
"""To start a local Ray: some of its processes get 15 seconds, in which a busy machine may not even have read them."""
PASSED_ON = ("ASR_ABLATIONS_", "MKL_", "OMP_", "PYTORCH_", "TORCH", "WANDB_")
"""How the names of those variables begin that arms take over from the command; all others are their machine's own."""


class Cluster:
    """Places on Ray, which is started or connected to when the first arm needs it, and kept until the command ends: the
    rounds of a search, or of until=verdict, have one.

    address: of a cluster, None for a Ray of this machine's own; jobs: the most arms at a time, None for as many as Ray
    takes; per_gpu: arms of one GPU that share it; cpus: of each rank, and its threads; retries: how often an arm is
    started again whose worker was lost. Raises UsageError for values out of range.
    """

    detach = False

    def __init__(
        self,
        script: Path,
        arms: Sequence[FrozenArm],
        *,
        address: str | None,
        jobs: int | None,
        per_gpu: int | str,
        cpus: int,
        retries: int,
    ) -> None:
        whole("hydra.launcher.cpus", cpus, 1)
        # auto measures this machine's GPUs, and the arms run on others
        per_gpu = whole("hydra.launcher.per_gpu", per_gpu, 1)
        whole("hydra.launcher.retries", retries, 0)
        self.script, self.address, self.per_gpu, self.cpus, self.retries = script, address, per_gpu, cpus, retries
        slots = machine_slots(jobs, per_gpu, arms)
        self.jobs = slots.jobs if address is None else jobs
        self._running: set[str] = set()

    def start(self, arm: FrozenArm) -> RemoteArm | None:
        if self.jobs is not None and len(self._running) >= self.jobs:
            return None
        if not ray.is_initialized():
            _connect_for_good(self.address)
        wanted = needed(arm, self.cpus, self.per_gpu, has_gpus=bool(ray.cluster_resources().get("GPU")))
        self._check_fit(arm, wanted)
        environment = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
        job = Job(self.script, arm, Path.cwd(), environment, self.cpus * arm.ranks)
        self._running.add(arm.id)
        # restarts alone are counted: calls fail several times before Ray knows that a machine is lost
        return RemoteArm(job, {**wanted, "max_restarts": self.retries, "max_task_retries": -1})

    def _check_fit(self, arm: FrozenArm, wanted: Mapping[str, float]) -> None:
        """Raises UsageError for an arm that no machine can ever take; a cluster may still get one that can."""
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        cpus, gpus = wanted["num_cpus"], wanted["num_gpus"]
        if any(machine.get("CPU", 0) >= cpus and machine.get("GPU", 0) >= gpus for machine in machines):
            return
        message = f"arm {arm.name}: needs {cpus:g} CPUs and {gpus:g} GPUs, which no machine of this Ray has"
        if self.address is None:
            raise UsageError(message)
        print(f"{message} yet: it waits", file=sys.stderr)

    def free(self, arm: FrozenArm) -> None:
        self._running.discard(arm.id)

    def left(self) -> None:
        return None


def needed(arm: FrozenArm, cpus: int, per_gpu: int, *, has_gpus: bool) -> dict[str, float]:
    """Return the resources that an arm reserves: by default a GPU per rank where there are any (has_gpus). Arms
    share a GPU only where each needs one.
    """
    gpus = arm.ranks * has_gpus if arm.gpus is None else arm.gpus
    return {"num_cpus": cpus * arm.ranks, "num_gpus": 1 / per_gpu if gpus == 1 else gpus}


def _connect_for_good(address: str | None) -> None:
    connection = contextlib.ExitStack()
    connection.enter_context(connected(address))
    # registered after Ray's own, it comes before them: they end Ray's processes, and this would wait for their answers
    atexit.register(connection.close)


@contextlib.contextmanager
def connected(address: str | None) -> Iterator[None]:
    """Ray for a while: the one at this address, or a local one. Raises UsageError where there is none."""
    if address is not None:
        _check_address(address)
    with _local() if address is None else contextlib.nullcontext({"address": address}) as options:
        with _signals_kept():
            _connect(options, attempts=1 if address else ATTEMPTS)
        try:
            yield
        finally:
            ray.shutdown()


def _check_address(address: object) -> None:
    """Ray itself would try for minutes where nobody answers."""
    host, _, port = str(address).rpartition(":")
    if address != "auto" and ("/" in host or not host or not port.isdigit()):
        raise choices("hydra.launcher.address", address, "auto or <host>:<port>, typed on a machine of the cluster")
    if address != "auto":
        try:
            socket.create_connection((host, int(port)), timeout=ANSWER).close()
        except OSError as error:
            raise UsageError(f"hydra.launcher.address={address}: {error}") from error


def _connect(options: Mapping[str, Any], attempts: int) -> None:
    for attempt in range(attempts):
        try:
            ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
            return
        except Exception as error:  # of any kind: where a process of Ray's took too long, it is a plain Exception
            ray.shutdown()
            _end_what_began(options.get("_temp_dir"))
            if attempt == attempts - 1:
                raise UsageError(f"hydra.launcher.address={options['address']}: {reason(error)}") from error


@contextlib.contextmanager
def _local() -> Iterator[dict[str, Any]]:
    """The options of a Ray of this command's own, without dashboard, that leaves nothing behind."""
    # the names of its sockets, which begin with this folder, have at most 107 characters
    with tempfile.TemporaryDirectory(prefix="asr-ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield {
            "address": "local",
            "num_cpus": cores(),
            "num_gpus": len(visible_gpus()),
            "include_dashboard": False,
            "object_store_memory": 80 * 2**20,  # nothing is kept there; it takes no less
            "_temp_dir": folder,
            # it would end the worker and not the arm, which holds the memory
            "_system_config": {"memory_monitor_refresh_ms": 0, "prestart_worker_first_driver": False},
        }


def _end_what_began(folder: str | None) -> None:
    """Kill the processes of a local Ray that did not start, which Ray itself leaves until the command ends."""
    if folder is None:
        return
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if folder in " ".join(process.cmdline()):
                process.kill()


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """Ray's handler of SIGTERM would end the command, and not its arms in order. Ray's processes get none at all."""
    handler = signal.getsignal(signal.SIGTERM)
    with held_back():
        try:
            yield
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, handler)

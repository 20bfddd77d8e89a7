"""Run arms on a local Ray, or on a Ray cluster whose machines share the checkout, the data and the run folders.

Each arm is an actor. Ray places the actor on a machine with enough CPUs and GPUs, and restarts it on another machine if
its worker or machine is lost. The actor starts the arm as a process. The run's lease keeps other processes out, and a
restarted arm continues from its last checkpoint.
"""

import atexit
import contextlib
import logging
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import ray
from ray.exceptions import RayError, RayTaskError

from asr_ablations.runs.lease import EXPIRY, HEARTBEAT, owner
from asr_ablations.runs.process import GRACE
from asr_ablations.sweep.arm import FrozenArm
from asr_ablations.sweep.runner import POLL, Places
from asr_ablations.sweep.this_machine import ArmProcess, machine_slots
from asr_ablations.tools.checks import whole
from asr_ablations.tools.machine import cores, visible_gpus
from asr_ablations.tools.signals import STOPPED_EXIT_CODES, held_back, let_in
from asr_verdicts.errors import UsageError, choices

PASSED_ON = ("ASR_ABLATIONS_", "MKL_", "OMP_", "PYTORCH_", "TORCH", "WANDB_")
"""Prefixes of environment variables that arms inherit from the command. Other variables come from the arm's machine."""
ANSWER = 5.0
"""Seconds to wait for a connection, and for a worker to answer before it is killed."""
GOING_DOWN = 5.0
"""Seconds to wait after a signal has ended an arm. If the machine is shutting down, Ray restarts the arm elsewhere."""
STOPPED_EXIT_CODE = 128 + signal.SIGTERM


class Cluster(Places):
    """Runs arms on a local Ray or a Ray cluster, which is connected from the first arm until the command ends.

    address: address of the cluster; None starts a local Ray. jobs: maximum number of arms at a time; None allows as
    many as fit. per_gpu: number of arms that share a GPU. cpus: number of CPUs and threads of each rank. retries:
    maximum number of restarts of an arm whose worker was lost.
    """

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
        # auto is refused, because it would measure the GPUs of this machine, but arms may run on other machines
        per_gpu = whole("hydra.launcher.per_gpu", per_gpu, 1)
        whole("hydra.launcher.retries", retries, 0)
        self.script, self.address, self.per_gpu, self.cpus, self.retries = script, address, per_gpu, cpus, retries
        jobs_here = machine_slots(jobs, per_gpu, arms).jobs
        self.jobs = jobs_here if address is None else jobs
        self._running: set[str] = set()

    def start(self, arm: FrozenArm) -> "RemoteArm | None":
        if self.jobs is not None and len(self._running) >= self.jobs:
            return None
        if not ray.is_initialized():
            connect(self.address)
        wanted = list_resources(arm, self.cpus, self.per_gpu, has_gpus=bool(ray.cluster_resources().get("GPU")))
        self._check_fit(arm, wanted)
        environment = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
        self._running.add(arm.id)
        # only restarts are limited, because calls fail several times before Ray notices that a machine is lost
        options = {**wanted, "max_concurrency": 4, "max_restarts": self.retries, "max_task_retries": -1}
        return RemoteArm(options, self.script, arm, Path.cwd(), environment, self.cpus * arm.ranks)

    def _check_fit(self, arm: FrozenArm, wanted: Mapping[str, float]) -> None:
        """Raise UsageError if an arm is too large for a local Ray; only warn on a cluster, which may grow."""
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        cpus, gpus = wanted["num_cpus"], wanted["num_gpus"]
        if any(machine.get("CPU", 0) >= cpus and machine.get("GPU", 0) >= gpus for machine in machines):
            return
        message = f"arm {arm.name}: needs {cpus:g} CPUs and {gpus:g} GPUs, but no machine in this Ray cluster has them"
        if self.address is None:
            raise UsageError(message)
        print(f"{message} yet; the arm waits for one", file=sys.stderr)

    def free(self, arm: FrozenArm) -> None:
        self._running.discard(arm.id)


def list_resources(arm: FrozenArm, cpus: int, per_gpu: int, *, has_gpus: bool) -> dict[str, float]:
    """Return the CPUs and GPUs to reserve for an arm: by default one GPU per rank, or a fraction if arms share GPUs."""
    gpus = arm.ranks * has_gpus if arm.gpus is None else arm.gpus
    return {"num_cpus": cpus * arm.ranks, "num_gpus": 1 / per_gpu if gpus == 1 else gpus}


def connect(address: str | None) -> None:
    """Connect to a Ray cluster, or start a local Ray, until the command ends. Raise UsageError on failure."""
    if address not in (None, "auto"):
        _check_address(address)
    connection = contextlib.ExitStack()
    options = {"address": address} if address is not None else connection.enter_context(_local())
    handler = signal.getsignal(signal.SIGTERM)  # Ray's handler would end the command before its arms have stopped
    for attempts_left in (2, 1, 0) if address is None else (0,):
        try:
            with held_back():
                ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
            break
        except Exception as error:  # Ray's processes have only 15 seconds to start, not enough on a busy machine
            ray.shutdown()
            if not attempts_left:
                raise UsageError(f"hydra.launcher.address={options['address']}: {reason(error)}") from error
    signal.signal(signal.SIGTERM, handler)
    connection.callback(ray.shutdown)
    # registered last and therefore run first, because Ray's own exit handlers end processes that `shutdown` needs
    atexit.register(connection.close)


def _check_address(address: object) -> None:
    """Raise UsageError if no server answers at the address. Ray itself would keep trying for minutes."""
    host, _, port = str(address).rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER).close()
    except (OSError, ValueError) as error:
        expected = f"auto, or <host>:<port> of a cluster to which this machine belongs ({error})"
        raise choices("hydra.launcher.address", address, expected) from error


@contextlib.contextmanager
def _local() -> Iterator[dict[str, Any]]:
    """Yield options for a local Ray without a dashboard, in a temporary folder that is removed at the end."""
    # paths of Ray's sockets begin with this folder, and may have at most 107 characters
    with tempfile.TemporaryDirectory(prefix="asr-ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield {
            "address": "local",
            "num_cpus": cores(),
            "num_gpus": len(visible_gpus()),
            "include_dashboard": False,
            "object_store_memory": 80 * 2**20,  # Ray's minimum, because nothing is stored there
            "_temp_dir": folder,
            # if memory is short, Ray's monitor would kill the worker, although the arm's process holds the memory
            "_system_config": {"memory_monitor_refresh_ms": 0, "prestart_worker_first_driver": False},
        }


class Worker:
    """The actor that runs an arm on the machine that Ray has chosen. Its methods can run at the same time."""

    def __init__(self) -> None:
        self._process: ArmProcess | None = None
        self._stopped = False

    def begin(self) -> None:
        """Do nothing. Once this call has returned, the actor has a machine."""

    def run(self, script: Path, arm: FrozenArm, folder: Path, environment: Mapping[str, str], threads: int) -> int:
        """Run the arm and return its exit code. folder: working directory of the command, for relative paths."""
        os.chdir(folder)
        os.environ.pop("OMP_NUM_THREADS", None)  # Ray sets it unless the user does
        os.environ.update(environment)
        context = ray.get_runtime_context()
        gpus = {"CUDA_VISIBLE_DEVICES": ",".join(context.get_accelerator_ids().get("GPU", []))}
        # after a worker is lost, the arm's old process or its lease may remain for a short time
        patience = time.monotonic() + (GRACE + EXPIRY if context.was_current_actor_reconstructed else 0.0)
        while time.monotonic() < patience and owner(arm.folder) is not None and not self._stopped:
            time.sleep(HEARTBEAT)
        if self._stopped:
            return STOPPED_EXIT_CODE
        with let_in():  # Ray's workers block signals
            self._process = process = ArmProcess(script, arm, gpus, threads, fork=False)
        if self._stopped:
            process.stop()
        while (code := process.exit_code()) is None:
            time.sleep(POLL)
        process.kill()  # also ends processes that the arm has started
        if (code < 0 or code in STOPPED_EXIT_CODES) and not self._stopped:
            time.sleep(GOING_DOWN)
        return code

    def stop(self) -> None:
        """Ask the arm to write its checkpoint and end."""
        self._stopped = True
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        """End the arm now."""
        self._stopped = True
        if self._process is not None:
            self._process.kill()


class RemoteArm:
    """An arm on Ray. options: resources and number of restarts of its actor. job: arguments of `Worker.run`."""

    place = ""

    def __init__(self, options: Mapping[str, Any], *job: object) -> None:
        self.failure: str | None = None
        self._worker = cast(Any, ray.remote)(**options)(Worker).remote()  # ray's types lack these options
        self._begin, self._end = self._worker.begin.remote(), self._worker.run.remote(*job)
        self._began: float | None = None
        self._exit_code: int | None = None

    @property
    def begun(self) -> bool:
        if self._began is None and ray.wait([self._begin], timeout=0)[0]:
            self._began = time.monotonic()
        return self._began is not None

    @property
    def seconds(self) -> float:
        """Seconds since the arm got a machine, or 0 while it waits."""
        return time.monotonic() - self._began if self._began is not None else 0.0

    def exit_code(self) -> int | None:
        if self._exit_code is None and ray.wait([self._end], timeout=0)[0]:
            try:
                self._exit_code = ray.get(self._end)
            except RayError as error:
                self.failure, self._exit_code = f"Ray: {reason(error)}", 1
        return self._exit_code

    def stop(self) -> None:
        if self.begun:
            self._worker.stop.remote()
        else:
            self._exit_code = STOPPED_EXIT_CODE
            self.kill()

    def kill(self) -> None:
        if self._exit_code is None and self.begun:
            ray.wait([self._worker.kill.remote(), self._end], num_returns=2, timeout=ANSWER)
        if self._exit_code is None:
            self._exit_code = -signal.SIGKILL
        ray.kill(self._worker)


def reason(error: BaseException) -> str:
    """Return the line of a Ray error that names the cause: the last line for a worker's error, otherwise the first."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1 if isinstance(error, RayTaskError) else 0]

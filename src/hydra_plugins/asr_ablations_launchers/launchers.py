"""Hydra launchers that compose and freeze all arms first, then run each in a process: here, on Ray or on Slurm."""

import os
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from asr_ablations.tools.errors import require

if TYPE_CHECKING:  # Hydra imports every plugin at the start of every command, so a launch imports heavy modules
    from asr_ablations.sweep.arm import FrozenArm, State
    from asr_ablations.sweep.gpu_slots import Slots
    from asr_ablations.sweep.runner import Places

OPTIONS: dict[str, Any] = {
    "jobs": None,  # arms at a time; by default one per GPU, or without GPUs one per core
    "per_gpu": 1,  # arms that share a GPU; auto: as many as its memory holds
    "timeout": None,  # minutes that an arm may take
    "show": None,  # a function of the folders that prints the results; by default one line per arm
    "fail_fast": False,  # true: the first arm that fails stops the others
}
RAY_OPTIONS = {
    **OPTIONS,
    "address": None,  # a cluster's, auto or host:port; by default RAY_ADDRESS, or a local Ray
    "cpus": 1,  # CPUs and threads of each rank of an arm
    "retries": 3,  # restarts of an arm whose worker or machine was lost
}
SLURM_OPTIONS = {
    **{name: value for name, value in OPTIONS.items() if name not in ("per_gpu", "timeout")},  # Slurm has its own
    # options of sbatch under their own names; memory is --mem, such as 32G
    **dict.fromkeys(("partition", "account", "qos", "constraint", "memory")),
    "cpus": 1,  # CPUs and threads of each rank of an arm
    "minutes": None,  # time limit of a job, which is queued again at its end; plan measures it; null: the partition's
    "sbatch": [],  # further options of sbatch, such as [--exclude=node7]
    "detach": False,  # true: queue the arms and end; the same command attaches again
}
DECLARING = (".ArmsSweeper", ".BasicSweeper", ".VerdictSweeper")
"""Sweepers that declare all arms, or the rule that adds runs, beforehand. With others, results decide the next arms."""


def store(group: str, name: str, cls: type, **options: Any) -> None:
    """Let Hydra find a plugin by its group and name. options: its arguments, with their defaults."""
    node = {"_target_": f"{cls.__module__}.{cls.__name__}", **options}
    ConfigStore.instance().store(group=group, name=name, node=node, provider="asr_ablations")


class ComposingLauncher(Launcher):
    """Composes the arms of a sweep."""

    config: DictConfig
    hydra_context: HydraContext
    task_function: TaskFunction

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.hydra_context, self.config, self.started = hydra_context, config, time.time()
        self.task_function, self.script = task_function, Path(sys.argv[0]).resolve()

    def compose(self, arms: Sequence[Sequence[str]], first: int) -> list[DictConfig]:
        """Compose the arms' configs from their overrides. first: the number of the first arm."""
        from asr_ablations.config.compose import compose_arm

        return [compose_arm(self.hydra_context, self.config, words, first + i) for i, words in enumerate(arms)]


class ProcessesLauncher(ComposingLauncher):
    """Runs each arm in a separate process. OPTIONS lists the arguments; jobs and per_gpu are options of the places."""

    def __init__(self, *, show: str | None, fail_fast: bool, timeout: float | None = None, **placing: Any) -> None:
        self.show, self.fail_fast, self.timeout, self.placing = show, fail_fast, timeout, placing

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        if not initial_job_idx:  # a search has several batches
            announce_sweep(len(job_overrides))
        from asr_ablations.sweep import launch
        from asr_ablations.sweep.preflight import is_training, print_differences, refuse_plan_of_runs

        configs = self.compose(job_overrides, initial_job_idx)
        refuse_plan_of_runs(configs)
        declared = not self.metadata()["search"] and all(map(is_training, configs))
        constant = list(self.config.hydra.overrides.task)
        arms = launch.freeze(configs, constant)
        if declared:
            print_differences(configs)
            if equal := len(arms) - len({arm.id for arm in arms}):
                print(f"{equal} of {len(arms)} runs are equal to another run, and share its result")
        if configs and configs[0].get("plan"):
            from asr_ablations.sweep.plan import show_plan

            slots = self.slots(arms)
            show_plan(arms, slots.jobs, slots.threads(len(arms)))
            if (runs := self.config.hydra.sweeper.get("n_trials")) is not None:
                print(f"a search: these are the first {len(arms)} of its {runs} runs; their results decide the others")
                raise SystemExit(0)  # the sweeper would wait for results
            return []
        states = self.run(arms)
        return [_job_return(launch.objective, state, cfg) for state, cfg in zip(states, configs, strict=True)]

    def run(self, arms: "Sequence[FrozenArm]") -> "list[State]":
        """Run frozen arms, and wait for them."""
        from asr_ablations.sweep import launch

        return launch.run(
            arms, self.metadata(), self.places, timeout=self.timeout, show=self.show, fail_fast=self.fail_fast
        )

    def slots(self, arms: "Sequence[FrozenArm]") -> "Slots":
        """Return this machine's slots, where arms are also measured."""
        from asr_ablations.sweep.gpu_slots import machine_slots

        return machine_slots(self.placing["jobs"], self.placing.get("per_gpu", 1), arms)

    def places(self, arms: "Sequence[FrozenArm]") -> "Places":
        """Return the places for these arms."""
        from asr_ablations.sweep.launch_arm import Machine

        return Machine(self.script, arms, self.slots(arms))

    def metadata(self) -> dict[str, object]:
        """Describe the start of the sweep, for its manifest."""
        return describe_start(self.config, self.started)


def announce_sweep(runs: int) -> None:
    """Print a line before anything is imported or composed, which takes seconds."""
    print(f"composes and checks {runs} runs", flush=True)


def describe_start(config: DictConfig, started: float) -> dict[str, object]:
    """Describe the start of a sweep for its manifest, so that the same command can be typed again."""
    from asr_ablations.tools.machine import iso

    job = config.hydra.job
    sources = {source.provider: source.path for source in config.hydra.runtime.config_sources}
    return {
        "started": iso(started),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "config_name": job.config_name,
        "config_folders": [path for provider, path in sources.items() if provider in ("main", "command-line")],
        "overrides": list(config.hydra.overrides.task),
        "space": space(config),
        "search": not str(config.hydra.sweeper.get("_target_")).endswith(DECLARING),
    }


def space(config: DictConfig) -> dict[str, str]:
    """Return the values that the sweep varies, as written in its file and then on the command line."""
    declared = config.hydra.sweeper.get("params") or {}
    typed = dict(override.split("=", 1) for override in config.hydra.overrides.task if "=" in override)
    return {str(key): typed.get(key, str(values)) for key, values in declared.items()}


class ArmReturn(JobReturn):
    """The result of an arm. The end of an arm without a result was printed; Hydra's JobReturn would print its words."""

    @property  # type: ignore[misc]
    def return_value(self) -> Any:
        if self.status == JobStatus.FAILED:
            raise self._return_value
        return self._return_value


def _job_return(objective: "Callable[[State], float]", state: "State", cfg: DictConfig) -> JobReturn:
    """Make an arm's result for Hydra's sweepers: the objective, or the error instead of it."""
    value: object
    try:
        value, status = objective(state), JobStatus.COMPLETED
    except Exception as error:
        value, status = error, JobStatus.FAILED
    return ArmReturn(overrides=list(state.arm.overrides), cfg=cfg, status=status, _return_value=value)


class RayLauncher(ProcessesLauncher):
    """Freezes the arms as its base does, and lets Ray choose where each runs. RAY_OPTIONS lists the arguments."""

    def places(self, arms: "Sequence[FrozenArm]") -> "Places":
        require("ray", "hydra/launcher=ray", "ray")
        address = self.placing["address"] or os.environ.get("RAY_ADDRESS") or None
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # Ray reads these variables when it is imported
        if address is None:
            os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # a local Ray stays on the loopback address
            os.environ.setdefault("RAY_AUTH_MODE", "token")
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # Ray would keep one in the home folder
        from asr_ablations.sweep.cluster import Cluster

        return Cluster(self.script, arms, **{**self.placing, "address": address})


class SlurmLauncher(ProcessesLauncher):
    """Freezes the arms as its base does, and queues them as a job array. SLURM_OPTIONS lists the arguments."""

    def places(self, arms: "Sequence[FrozenArm]") -> "Places":
        from asr_ablations.sweep.slurm import Slurm

        return Slurm(self.script, arms, **self.placing)


class TogetherLauncher(ComposingLauncher):
    """Calls the task once for all arms."""

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        arms = self.compose(job_overrides, initial_job_idx)
        results = self.task_function(arms)
        return [
            JobReturn(overrides=overrides, cfg=arm, status=JobStatus.COMPLETED, _return_value=value)
            for overrides, arm, value in zip(job_overrides, arms, results, strict=True)
        ]


# Hydra's default, "basic", runs all arms in one process, where seeds, environment and memory leak from one arm into the
# next. Ours also takes that name, so that every config uses it, including users' sweep files: only a primary config
# could choose the launcher by its other name.
for _name in ("processes", "basic"):
    store("hydra/launcher", _name, ProcessesLauncher, **OPTIONS)
store("hydra/launcher", "ray", RayLauncher, **RAY_OPTIONS)
store("hydra/launcher", "slurm", SlurmLauncher, **SLURM_OPTIONS)
store("hydra/launcher", "together", TogetherLauncher)

"""Hydra plugins: launchers run arms in processes, on Ray or on Slurm, and sweepers choose the arms to run."""

import os
import secrets
import shutil
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from asr_ablations.tools.errors import require
from asr_ablations.tools.launchers import LAUNCHERS
from asr_verdicts.errors import UsageError, choices

if TYPE_CHECKING:  # Hydra imports every plugin when any command starts, so heavy modules are only imported at launch
    from asr_ablations.sweep.arm import FrozenArm, State
    from asr_ablations.sweep.runner import Places
    from asr_ablations.sweep.this_machine import Slots

DECLARING = (".ArmsSweeper", ".BasicSweeper", ".VerdictSweeper")
"""Sweepers that fix all arms, or the rule for adding runs, in advance. Other sweepers choose arms by their results."""


def store(group: str, name: str, cls: type, **options: Any) -> None:
    """Register a plugin with Hydra under a group and a name. options: the plugin's arguments and their defaults."""
    node = {"_target_": f"{cls.__module__}.{cls.__name__}", **options}
    ConfigStore.instance().store(group=group, name=name, node=node, provider="asr_ablations")


class ComposingLauncher(Launcher):
    """Base class of launchers, which composes each arm's config."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.hydra_context, self.config, self.started = hydra_context, config, time.time()
        self.task_function, self.script = task_function, Path(sys.argv[0]).resolve()

    def compose(self, arms: Sequence[Sequence[str]], first: int) -> list[DictConfig]:
        """Compose each arm's config from the arm's overrides. first: Hydra's job number of the first arm."""
        from asr_ablations.config.compose import compose_arm

        return [compose_arm(self.hydra_context, self.config, words, first + i) for i, words in enumerate(arms)]


class ProcessesLauncher(ComposingLauncher):
    """Composes and freezes all arms first, then runs each in a separate process. LAUNCHERS lists the arguments.

    placing: options that decide where arms run, and how many run at a time
    """

    def __init__(self, *, show: str | None, fail_fast: bool, timeout: float | None = None, **placing: Any) -> None:
        self.show, self.fail_fast, self.timeout, self.placing = show, fail_fast, timeout, placing

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        if not self.config.get("plan"):
            self.check_machine()
        if not initial_job_idx:  # a search launches several batches, and announces only the first
            announce_sweep(len(job_overrides))
        from asr_ablations.sweep import launch
        from asr_ablations.sweep.preflight import is_training, print_differences, refuse_plan_of_runs

        configs = self.compose(job_overrides, initial_job_idx)
        refuse_plan_of_runs(configs)
        arms = launch.freeze(configs, list(self.config.hydra.overrides.task))
        if not self.metadata()["search"] and all(map(is_training, configs)):
            print_differences(configs)
            if equal := len(arms) - len({arm.id for arm in arms}):
                print(f"{equal} of {len(arms)} runs are equal to another run, and share its result")
        if configs[0].get("plan"):
            from asr_ablations.sweep.plan import show_plan

            slots = self.slots(arms)
            show_plan(arms, slots.jobs, slots.threads(len(arms)))
            if (runs := self.config.hydra.sweeper.get("n_trials")) is not None:
                print(f"a search: these are the first {len(arms)} of its {runs} runs; their results choose the rest")
                raise SystemExit(0)  # exit, because the sweeper would wait for results
            return []
        # objective() raises for a failed arm, because its error was already printed; a failed JobReturn would repeat it
        return [
            JobReturn(list(state.arm.overrides), cfg, status=JobStatus.COMPLETED, _return_value=launch.objective(state))
            for state, cfg in zip(self.run(arms), configs, strict=True)
        ]

    def check_machine(self) -> None:
        """Raise UsageError if this machine lacks what the launcher needs."""

    def run(self, arms: "Sequence[FrozenArm]") -> "list[State]":
        """Run the frozen arms, and wait until all of them have ended."""
        from asr_ablations.sweep import launch

        return launch.run(
            arms, self.metadata(), self.places, timeout=self.timeout, show=self.show, fail_fast=self.fail_fast
        )

    def slots(self, arms: "Sequence[FrozenArm]") -> "Slots":
        """Return this machine's slots. Arms are measured in these slots even if they will run on other machines."""
        from asr_ablations.sweep.this_machine import machine_slots

        return machine_slots(self.placing["jobs"], self.placing.get("per_gpu", 1), arms)

    def places(self, arms: "Sequence[FrozenArm]") -> "Places":
        """Return the object that starts these arms as places for them become free."""
        from asr_ablations.sweep.this_machine import Machine

        return Machine(self.script, arms, self.slots(arms))

    def metadata(self) -> dict[str, object]:
        """Return how the sweep was started, for the manifest: command, config folders, overrides and varied values."""
        from asr_ablations.tools.machine import iso

        hydra = self.config.hydra
        sources = {source.provider: source.path for source in hydra.runtime.config_sources}
        typed = dict(override.split("=", 1) for override in hydra.overrides.task if "=" in override)
        params = hydra.sweeper.get("params") or {}
        return {
            "started": iso(self.started),
            "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
            "config_name": hydra.job.config_name,
            "config_folders": [path for provider, path in sources.items() if provider in ("main", "command-line")],
            "overrides": list(hydra.overrides.task),
            # values that the sweep varies: from the command line if typed there, else from the sweep file
            "space": {str(key): typed.get(key, str(value)) for key, value in params.items()},
            "search": not str(hydra.sweeper.get("_target_")).endswith(DECLARING),
        }


def announce_sweep(runs: int) -> None:
    """Print the number of runs right away, because imports and composing configs take seconds."""
    print(f"composing and checking {runs} runs", flush=True)


class RayLauncher(ProcessesLauncher):
    """Freezes the arms like its base class, and lets Ray choose a machine for each. LAUNCHERS lists the arguments."""

    def check_machine(self) -> None:
        require("ray", "hydra/launcher=ray", "ray")

    def places(self, arms: "Sequence[FrozenArm]") -> "Places":
        address = self.placing["address"] or os.environ.get("RAY_ADDRESS") or None
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # Ray reads these variables when it is imported
        if address is None:
            os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # keeps a local Ray on the loopback address
            os.environ.setdefault("RAY_AUTH_MODE", "token")
            # otherwise Ray would store a token in the home folder
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        from asr_ablations.sweep.cluster import Cluster

        return Cluster(self.script, arms, **{**self.placing, "address": address})


class SlurmLauncher(ProcessesLauncher):
    """Freezes the arms like its base class, and queues them as a job array. LAUNCHERS lists the arguments."""

    def check_machine(self) -> None:
        if shutil.which("sbatch") is None:
            raise UsageError("hydra/launcher=slurm: sbatch is missing; run this on a machine with Slurm")

    def places(self, arms: "Sequence[FrozenArm]") -> "Places":
        from asr_ablations.sweep.slurm import Slurm

        return Slurm(self.script, arms, **self.placing)


class TogetherLauncher(ComposingLauncher):
    """Calls the task function once, with the list of all arms' configs."""

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        arms = self.compose(job_overrides, initial_job_idx)
        return [
            JobReturn(overrides, arm, status=JobStatus.COMPLETED, _return_value=value)
            for overrides, arm, value in zip(job_overrides, arms, self.task_function(arms), strict=True)
        ]


class ArmsSweeper(BasicSweeper):
    """Runs every combination of the swept values, or every combination with every arm if the config lists arms."""

    def get_job_batch(self) -> Sequence[Sequence[str]]:
        assert self.config is not None
        assert self.hydra_context is not None
        return add_arms(self.hydra_context, self.config, super().get_job_batch())


def add_arms(context: HydraContext, config: DictConfig, batch: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
    """Combine each run in `batch` with every listed arm. Raise UsageError if the batch is empty or the list invalid."""
    if not batch:
        raise UsageError("a key of -m has no values: there is nothing to run")
    if "arms" not in config or (config.arms is None and not any(word.startswith("arms=") for word in batch[0])):
        return batch
    from asr_ablations.config.compose import compose_arm
    from asr_ablations.sweep.arm import list_arms

    return list_arms(batch, partial(compose_arm, context, config, number=0))


QUIET = "asr_ablations.sweep.until.ablation.print_nothing"


class VerdictSweeper(BasicSweeper):
    """Adds seeds to a sweep's arms, round by round, until every question has its verdict (config group `until`).

    The plan first uses the seeds that the sweep lists, and adds further seeds as needed.
    """

    def sweep(self, arguments: list[str]) -> Any:
        assert self.config is not None
        assert self.hydra_context is not None
        launcher = self.launcher
        if not isinstance(launcher, ProcessesLauncher):
            raise UsageError("until=verdict: expected hydra/launcher=processes, ray or slurm")
        parser = OverridesParser.create(config_loader=self.hydra_context.config_loader)
        overrides = parser.parse_overrides([*self._parse_config(), *arguments])
        (combinations,) = self.split_arguments(overrides, None)
        batch = add_arms(self.hydra_context, self.config, combinations)
        announce_sweep(len(batch))
        from asr_ablations.sweep.until.ablation import run_until

        launcher.show = launcher.show or QUIET
        compose = partial(launcher.compose, first=0)
        run_until(batch, lambda words: compose([words])[0], launcher.run, launcher.slots, launcher.metadata())


DIRECTIONS = ("minimize", "maximize")


class SearchSweeper(BasicSweeper):
    """Proposes n_trials runs from a search space, and runs n_jobs of them at a time, with any launcher.

    params: search space, which the command line overrides. A value is choice(…), range(…), interval(…),
        int(interval(…)), tag(log, …) around one of these, or a fixed value.
    sampler: hydra/sweeper/sampler=tpe, random or qmc, or any Optuna sampler, whose class name is its `kind`
    direction: minimize or maximize a run's result, which is its best WER on the first validation set
    """

    def __init__(self, *, direction: str, n_trials: int, n_jobs: int, sampler: Any, params: DictConfig | None) -> None:
        super().__init__(max_batch_size=None, params=dict(params or {}))
        self.direction, self.trials, self.at_once, self.sampler = direction, n_trials, n_jobs, sampler

    def sweep(self, arguments: list[str]) -> Any:
        from asr_ablations.sweep.search import build_space, search

        assert self.hydra_context is not None
        assert self.launcher is not None
        if self.direction not in DIRECTIONS:
            raise choices("hydra.sweeper.direction", self.direction, DIRECTIONS)
        parser = OverridesParser.create(config_loader=self.hydra_context.config_loader)
        overrides = parser.parse_overrides([*self._parse_config(), *arguments])
        return search(
            build_space(list({override.get_key_element(): override for override in overrides}.values())),
            self.sampler,
            self.launcher.launch,
            trials=self.trials,
            at_once=self.at_once,
            maximise=self.direction == "maximize",
        )


SAMPLERS: dict[str, dict[str, Any]] = {
    "tpe": {"kind": "TPESampler", "seed": None, "n_startup_trials": 10},  # Bergstra et al. 2011
    "random": {"kind": "RandomSampler", "seed": None},
    "qmc": {"kind": "QMCSampler", "seed": None, "scramble": True},  # Sobol points, which fill the space evenly
}
for _name, _options in SAMPLERS.items():
    _node = {"_target_": "asr_ablations.sweep.search.build_sampler", **_options}
    ConfigStore.instance().store(group="hydra/sweeper/sampler", name=_name, node=_node, provider="asr_ablations")
# Hydra's default launcher, "basic", runs all arms in one process, where seeds, variables and memory leak between arms.
# Our launcher and our sweeper replace Hydra's "basic" ones, so every config uses them, including users' sweep files.
# A launcher with another name would have to be selected in every primary config.
_classes = {"processes": ProcessesLauncher, "ray": RayLauncher, "slurm": SlurmLauncher}
for _name, _keys in LAUNCHERS.items():
    for _other in (_name, "basic") if _name == "processes" else (_name,):
        store("hydra/launcher", _other, _classes[_name], **{key: yaml.safe_load(value) for key, value, _ in _keys})
store("hydra/launcher", "together", TogetherLauncher)
store("hydra/sweeper", "basic", ArmsSweeper, max_batch_size=None, params=None)
store("hydra/sweeper", "verdict", VerdictSweeper, max_batch_size=None, params=None)
_search = {"direction": "minimize", "n_trials": 20, "n_jobs": 2, "params": None}
store("hydra/sweeper", "optuna", SearchSweeper, defaults=[{"sampler": "tpe"}], **_search)

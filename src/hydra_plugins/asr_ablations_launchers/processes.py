"""Hydra launcher: every arm composed and frozen first, then one fresh process an arm."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

OPTIONS = {
    "jobs": None,  # arms at a time; by default one a GPU, else one
    "per_gpu": 1,  # arms that share a GPU
    "timeout": None,  # minutes an arm may take
    "show": None,  # a function of the folders that tells the end; by default a line an arm
    "fail_fast": False,  # true: the first arm that fails stops the others
}


class ProcessesLauncher(Launcher):
    """One process an arm: arms share no seed, no environment, no memory, and one that dies takes no other with it."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.config: DictConfig | None = None
        self.hydra_context: HydraContext | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.hydra_context, self.config = hydra_context, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        # imported here: Hydra imports every plugin at the start of every command
        from asr_ablations.sweep import launch

        configs = [self._compose(overrides, initial_job_idx + i) for i, overrides in enumerate(job_overrides)]
        script = Path(sys.argv[0]).resolve()
        arms = launch.freeze(configs)
        if configs and configs[0].get("plan"):
            launch.plan(arms, self.options["jobs"], self.options["per_gpu"])
            self._end_a_search(len(arms))
            return []
        states = launch.run(script, arms, self._told(), self.options)
        return [self._result(launch.objective, state, cfg) for state, cfg in zip(states, configs, strict=True)]

    def _result(self, objective: Any, state: Any, cfg: DictConfig) -> JobReturn:
        try:
            value, status = objective(state), JobStatus.COMPLETED
        except Exception as error:
            value, status = error, JobStatus.FAILED
        return JobReturn(overrides=list(state.arm.overrides), cfg=cfg, status=status, _return_value=value)

    def _end_a_search(self, arms: int) -> None:
        """A sweeper that searches would wait for results, which a plan has not."""
        assert self.config is not None
        runs = self.config.hydra.sweeper.get("n_trials")
        if runs is not None:
            print(f"a search: these are the first {arms} of its {runs} runs; what the others are, their results decide")
            raise SystemExit(0)

    def _told(self) -> dict[str, Any]:
        """What a reader types to have this sweep again, for its manifest."""
        assert self.config is not None
        job = self.config.hydra.job
        sources = {source.provider: source.path for source in self.config.hydra.runtime.config_sources}
        return {
            "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
            "config_name": job.config_name,
            "config_folders": [path for provider, path in sources.items() if provider in ("main", "command-line")],
            "overrides": list(self.config.hydra.overrides.task),
        }

    def _compose(self, overrides: Sequence[str], number: int) -> DictConfig:
        from asr_ablations.config.compose import compose_arm

        assert self.hydra_context is not None
        assert self.config is not None
        return compose_arm(self.hydra_context, self.config, overrides, number)


# Hydra's own default, "basic", runs all arms in one process, where seeds, environment and memory leak from one into
# the next. Ours takes its name too, so that every config gets it, a sweep file of the user's as well: only a primary
# config could override the launcher by its own name.
for _name in ("processes", "basic"):
    ConfigStore.instance().store(
        group="hydra/launcher",
        name=_name,
        node={"_target_": f"{__name__}.{ProcessesLauncher.__name__}", **OPTIONS},
        provider="asr_ablations",
    )

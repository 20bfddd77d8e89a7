"""Hydra launcher: every arm composed and frozen first, then one fresh process an arm."""

import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

log = logging.getLogger(__name__)


class ProcessesLauncher(Launcher):
    """One process an arm: arms share no seed, no environment, no memory, and one that dies takes no other with it."""

    def __init__(self, **options: Any) -> None:
        self.config: DictConfig | None = None
        self.hydra_context: HydraContext | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.hydra_context, self.config = hydra_context, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        # imported here: Hydra imports every plugin at the start of every command
        from asr_ablations.sweep.arm import Arm, run_arms

        arms = [Arm.freeze(self._compose(overrides, initial_job_idx + i)) for i, overrides in enumerate(job_overrides)]
        codes = run_arms(Path(sys.argv[0]).resolve(), arms)
        return [
            JobReturn(overrides=overrides, cfg=None, status=JobStatus.COMPLETED, _return_value=code)
            for overrides, code in zip(job_overrides, codes, strict=True)
        ]

    def _compose(self, overrides: Sequence[str], number: int) -> DictConfig:
        """The resolved config of one arm, without Hydra's own part."""
        assert self.hydra_context is not None
        assert self.config is not None
        state = Singleton.get_state()
        try:
            cfg = self.hydra_context.config_loader.load_sweep_config(self.config, list(overrides))
            with open_dict(cfg):
                cfg.hydra.job.num = number
                HydraConfig.instance().set_config(cfg)
                if cfg.get("sweep", "") is None:
                    cfg.sweep = _sweep_name(self.config)
                del cfg["hydra"]
            OmegaConf.resolve(cfg)
        finally:
            Singleton.set_state(state)
        return cfg


def _sweep_name(config: DictConfig) -> str:
    """The sweep file's name, or what the command line varies."""
    if (file := config.hydra.job.config_name) != "config":
        return str(file)
    from asr_ablations.run import short_name

    return short_name(config.hydra.overrides.task)


# Hydra's own default, "basic", runs all arms in one process, where seeds, environment and memory leak from one into
# the next. Ours takes its name too, so that every config gets it, a sweep file of the user's as well: only a primary
# config could override the launcher by its own name.
for _name in ("processes", "basic"):
    ConfigStore.instance().store(
        group="hydra/launcher",
        name=_name,
        node={"_target_": f"{__name__}.{ProcessesLauncher.__name__}"},
        provider="asr_ablations",
    )

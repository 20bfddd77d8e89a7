"""Hydra launcher for arms that are cheap and share much: all of them are composed, then the task is called once in this
process, with the list of their configs. Evaluation uses it: its arms share log-probabilities, a pool and a table.
"""

from collections.abc import Sequence

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class TogetherLauncher(Launcher):
    """Calls the task once for all arms."""

    def __init__(self) -> None:
        self.config: DictConfig | None = None
        self.hydra_context: HydraContext | None = None
        self.task_function: TaskFunction | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.hydra_context, self.task_function, self.config = hydra_context, task_function, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        assert self.task_function is not None
        arms = [self._compose(overrides, initial_job_idx + i) for i, overrides in enumerate(job_overrides)]
        results = self.task_function(arms)
        return [
            JobReturn(overrides=overrides, cfg=arm, status=JobStatus.COMPLETED, _return_value=value)
            for overrides, arm, value in zip(job_overrides, arms, results, strict=True)
        ]

    def _compose(self, overrides: Sequence[str], number: int) -> DictConfig:
        from asr_ablations.config.compose import compose_arm

        assert self.hydra_context is not None
        assert self.config is not None
        return compose_arm(self.hydra_context, self.config, overrides, number)


ConfigStore.instance().store(
    group="hydra/launcher",
    name="together",
    node={"_target_": f"{__name__}.{TogetherLauncher.__name__}"},
    provider="asr_ablations",
)

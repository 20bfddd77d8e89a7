"""Hydra sweeper: products of values as Hydra's own, and beside them the arms of a list (`arms` in a sweep file)."""

from collections.abc import Sequence
from functools import partial

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_store import ConfigStore
from hydra.types import HydraContext
from omegaconf import DictConfig

from asr_ablations.tools.errors import UsageError


class ArmsSweeper(BasicSweeper):
    """Runs every combination of values, each with every arm of the list where there is one."""

    def get_job_batch(self) -> Sequence[Sequence[str]]:
        assert self.config is not None
        assert self.hydra_context is not None
        return each_arm(self.hydra_context, self.config, super().get_job_batch())


def each_arm(context: HydraContext, config: DictConfig, batch: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
    """The overrides of all runs: those of `batch`, each with every arm. Raises UsageError for a list that is none, and
    where there is no run at all.
    """
    if not batch:
        raise UsageError("a key of -m has no values: there is nothing to run")
    if "arms" not in config or (config.arms is None and not any(word.startswith("arms=") for word in batch[0])):
        return batch
    from asr_ablations.config.compose import compose_arm
    from asr_ablations.sweep.listing import each_arm_of

    return each_arm_of(batch, partial(compose_arm, context, config, number=0))


# As for the launcher: Hydra's own name, so that every config gets it, a user's own sweep file included.
ConfigStore.instance().store(
    group="hydra/sweeper",
    name="basic",
    node={"_target_": f"{__name__}.{ArmsSweeper.__name__}", "max_batch_size": None, "params": None},
    provider="asr_ablations",
)

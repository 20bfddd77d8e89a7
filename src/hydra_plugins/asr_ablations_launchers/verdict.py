"""Hydra sweeper that adds seeds to the arms of a sweep until each question has its verdict (until=verdict)."""

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.types import HydraContext
from omegaconf import DictConfig

from asr_verdicts.errors import UsageError
from hydra_plugins.asr_ablations_launchers.processes import ProcessesLauncher, announce_sweep, describe_start


class ArmsSweeper(BasicSweeper):
    """Runs every combination of values, each with every arm of the list, if there is one."""

    def get_job_batch(self) -> Sequence[Sequence[str]]:
        assert self.config is not None
        assert self.hydra_context is not None
        return add_arms(self.hydra_context, self.config, super().get_job_batch())


def add_arms(context: HydraContext, config: DictConfig, batch: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
    """Combine the overrides in `batch` with every arm of the list. Raise UsageError for a wrong list or no runs."""
    if not batch:
        raise UsageError("a key of -m has no values: there is nothing to run")
    if "arms" not in config or (config.arms is None and not any(word.startswith("arms=") for word in batch[0])):
        return batch
    from asr_ablations.config.compose import compose_arm
    from asr_ablations.sweep.arm import list_arms

    return list_arms(batch, partial(compose_arm, context, config, number=0))


# As for the launcher, Hydra's name: so every config uses it, including users' sweep files.
ConfigStore.instance().store(
    group="hydra/sweeper",
    name="basic",
    node={"_target_": f"{__name__}.{ArmsSweeper.__name__}", "max_batch_size": None, "params": None},
    provider="asr_ablations",
)


QUIET = "asr_ablations.sweep.until.terminal.print_nothing"


class VerdictSweeper(BasicSweeper):
    """Runs the sweep's arms round by round, with any launcher, as the keys of `until` demand.

    The sweep's seeds come first; the plan adds others as needed.
    """

    def sweep(self, arguments: list[str]) -> Any:
        assert self.config is not None
        assert self.hydra_context is not None
        launcher = self.launcher
        if not isinstance(launcher, ProcessesLauncher):
            raise UsageError("until=verdict: expected hydra/launcher=processes, ray or slurm")
        started = time.time()
        parser = OverridesParser.create(config_loader=self.hydra_context.config_loader)
        overrides = parser.parse_overrides([*self._parse_config(), *arguments])
        (combinations,) = self.split_arguments(overrides, None)
        batch = add_arms(self.hydra_context, self.config, combinations)
        announce_sweep(len(batch))
        from asr_ablations.sweep.until.ablation import run_until

        launcher.show = launcher.show or QUIET
        metadata = describe_start(self.config, started)
        run_until(batch, lambda words: launcher.compose([words], 0)[0], launcher.run, launcher.slots, metadata)


ConfigStore.instance().store(
    group="hydra/sweeper",
    name="verdict",
    node={"_target_": f"{__name__}.{VerdictSweeper.__name__}", "max_batch_size": None, "params": None},
    provider="asr_ablations",
)

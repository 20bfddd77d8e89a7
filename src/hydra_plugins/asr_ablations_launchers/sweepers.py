"""Hydra sweepers: all combinations of values, rounds of seeds until a verdict (until=verdict), and a search."""

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.types import HydraContext
from omegaconf import DictConfig

from asr_verdicts.errors import UsageError, choices
from hydra_plugins.asr_ablations_launchers.launchers import ProcessesLauncher, announce_sweep, describe_start, store


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


QUIET = "asr_ablations.sweep.until.ablation.print_nothing"


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


DIRECTIONS = ("minimize", "maximize")


class SearchSweeper(BasicSweeper):
    """Draws n_trials runs from the params and runs n_jobs of them at a time, with any launcher.

    params: choice(…), range(…), interval(…), int(interval(…)), tag(log, …) of these, or plain values; the command line
    overrides them. sampler: hydra/sweeper/sampler=tpe, random or qmc, or any of Optuna's by its kind.
    direction: whether to minimize or maximize the runs' result, the best WER on the first validation set.
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
# As for the launcher, "basic" is Hydra's name: so every config uses it, including users' sweep files.
store("hydra/sweeper", "basic", ArmsSweeper, max_batch_size=None, params=None)
store("hydra/sweeper", "verdict", VerdictSweeper, max_batch_size=None, params=None)
_search = {"direction": "minimize", "n_trials": 20, "n_jobs": 2, "params": None}
store("hydra/sweeper", "optuna", SearchSweeper, defaults=[{"sampler": "tpe"}], **_search)

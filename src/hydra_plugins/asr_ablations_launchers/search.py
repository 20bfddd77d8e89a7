"""Hydra sweeper that searches with one of Optuna's samplers (hydra/sweeper=optuna)."""

from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig

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
        from asr_verdicts.errors import choices

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
    ConfigStore.instance().store(
        group="hydra/sweeper/sampler",
        name=_name,
        node={"_target_": "asr_ablations.sweep.search.build_sampler", **_options},
        provider="asr_ablations",
    )
ConfigStore.instance().store(
    group="hydra/sweeper",
    name="optuna",
    node={
        "defaults": [{"sampler": "tpe"}],
        "_target_": f"{__name__}.{SearchSweeper.__name__}",
        "direction": "minimize",
        "n_trials": 20,
        "n_jobs": 2,
        "params": None,
    },
    provider="asr_ablations",
)

"""Check the keys of an evaluation before anything is loaded."""

import math
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from asr_ablations.config.build import check_targets
from asr_ablations.config.targets import options_by_name
from asr_ablations.runs.layout import CONFIG, KEPT_ASIDE, runs_in
from asr_ablations.runs.status import why_unfinished
from asr_ablations.tools.checks import check_auto_or_one, is_number, label_or_null, path_or_none, whole
from asr_ablations.tools.errors import require
from asr_ablations.tools.files import typed
from asr_verdicts.errors import UsageError, choices

SPACES = ("alpha", "beta", "weight", "prune_beams")
"""Keys under `tune` that are ranges to search."""
WIDEST = 1000  # largest absolute value within these ranges


def decoder_name(cfg: DictConfig) -> str:
    """Return the name of the decoder in a config, which is also the name of its module in components/decoder/."""
    return str(cfg.decoder._target_).split(".")[-2]


def check_requests(cfgs: DictConfig | list[DictConfig]) -> None:
    """Check the values of every request. Raise UsageError with the wrong value and the allowed values."""
    for cfg in cfgs if isinstance(cfgs, list) else [cfgs]:
        check_targets(cfg)
        if not cfg.run:
            raise UsageError(f"run is not set: expected a run's folder: {typed('evaluate')} run=outputs/<sweep>/<run>")
        for key in ("run", "root"):
            path_or_none(key, cfg[key])
        whole("tune.trials", cfg.tune.trials, 0, 10**6)
        whole("tune.seed", cfg.tune.seed, 0, 2**32 - 1)  # NumPy's limit
        if label_or_null("tune.set", cfg.tune.set) and not cfg.tune.trials:
            raise choices("tune.set", cfg.tune.set, "null with tune.trials=0, which tunes nothing")
        if cfg.tune.trials:
            require("search", f"tune.trials={cfg.tune.trials}", "optuna")
        if cfg.activations.layers != []:
            _check_names("activations.layers", cfg.activations.layers)
        if cfg.activations.layers:
            require("benchmarks", f"activations.layers={list(cfg.activations.layers)}", "h5py")
        for key in ("sets", "activations.sets", "corpora", "conditions"):
            _check_names(key, OmegaConf.select(cfg, key))
        _check_conditions(cfg)
        for key in SPACES:
            if key != "prune_beams" or cfg.tune[key] is not None:
                _check_space(key, cfg.tune[key])
        if cfg.untrained not in ("skip", "decode"):
            raise choices("untrained", cfg.untrained, ("skip", "decode"))
        check_auto_or_one("gpus", cfg.gpus)


def as_list(value: str | Sequence[str] | None) -> list[str]:
    return [value] if isinstance(value, str) else list(value or [])


def _check_conditions(cfg: DictConfig) -> None:
    """Raise UsageError for unknown conditions, and for options of conditions that are not chosen."""
    chosen = as_list(cfg.conditions)
    for name in chosen:
        if name not in cfg.condition:
            raise choices("conditions", name, options_by_name("condition"))
    for name in map(str, cfg.condition):
        if name not in chosen:
            raise UsageError(f"condition.{name}: expected it among conditions=[{','.join(chosen)}]")
    whole("condition_seed", cfg.condition_seed, 0, 2**32 - 1)


def _check_names(key: str, value: object) -> None:
    names = OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
    listed = names if isinstance(names, list) else [names]
    if names is None or (listed and all(isinstance(name, str) and name for name in listed)):
        return
    raise choices(key, names, "a name, or a list of names, such as [test-clean], or null")


def _check_space(key: str, value: object) -> None:
    """Raise UsageError unless the value is a list of two numbers, the second larger than the first."""
    ends = OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
    if isinstance(ends, list) and len(ends) == 2 and all(map(is_number, ends)):
        above = 0 if key == "prune_beams" else -math.inf
        if above < ends[0] and -WIDEST <= ends[0] < ends[1] <= WIDEST:
            return
    raise choices(f"tune.{key}", ends, f"the ends of a range, such as [0.0, 2.5], up to {WIDEST}")


def finished_runs(path: Path) -> list[Path]:
    """Return the finished runs in a sweep folder. Return any other path as the only item.

    A sweep folder without finished runs is also returned as the only item.
    """
    if not path.is_dir() or (path / CONFIG).exists():
        return [path]
    runs = [run for run in runs_in(path) if not KEPT_ASIDE.search(run.name) and why_unfinished(run) is None]
    return runs or [path]

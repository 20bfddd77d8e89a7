"""The identity of a run: a hash over everything that can change its result."""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, cast

import yaml
from omegaconf import DictConfig, OmegaConf

from asr_ablations.tools.content_keys import content_key
from asr_ablations.tools.files import DEFAULTS
from asr_verdicts.config import MACHINE_KEYS, WHEREABOUTS, Config, determining
from asr_verdicts.files import slug

BEHAVIOUR = 4
"""Raised when the code changes the numbers of an unchanged config on purpose, so that runs before and after differ in
identity."""


def content(cfg: DictConfig) -> Config:
    """Everything in the config that can change the result."""
    whole = cast(Config, OmegaConf.to_container(cfg, resolve=True))
    return determining(whole)


def identity(cfg: DictConfig, fingerprint: str = "") -> str:
    """Eight hexadecimal digits of a hash over config, data and the behaviour of the code."""
    return identity_of(content(cfg), fingerprint)


def identity_of(content: Config, fingerprint: str) -> str:
    """The identity of a run with this `determining` content."""
    everything = {"config": content, "data": fingerprint, "behaviour": BEHAVIOUR}
    return content_key(8, **_plain_numbers(everything))


def _plain_numbers(value: Any) -> Any:
    """The value with 1.0 as 1 at any depth: both are typed for one number."""
    if isinstance(value, dict):
        return {key: _plain_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain_numbers(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def of_the_experiment(overrides: Iterable[str]) -> list[str]:
    """The overrides that say something of the experiment, and not of the machine or of where something lies."""
    keys = (*(key for key in MACHINE_KEYS if key != "weights"), *(f"data.{key}" for key in WHEREABOUTS), "cache.root")
    machine = (*(f"{key}{mark}" for key in keys for mark in "=.@"), "hydra")
    return [override for override in overrides if not override.lstrip("+~").startswith(machine)]


LONGEST = 80
"""Letters of a run's name."""


def short_name(overrides: Iterable[str], constant: Collection[str] | None = None) -> str:
    """The overrides that say something of the experiment, in short, for people; the identity tells runs apart.

    constant: those that all runs of a sweep have in common, which no name repeats; None outside a sweep. The seed
    stands last and is never cut, and the number of GPUs stands there only where a sweep varies it.
    """
    words = of_the_experiment(overrides)
    if constant is None:
        words = [word for word in words if not word.startswith("gpus=")]
    else:
        words = [word for word in words if word not in constant]
    seed = next((slug(word.replace("=", "-")) for word in words if word.startswith("seed=")), "")
    others = [without_folder(word).replace("=", "-") for word in words if not word.startswith("seed=")]
    name = slug("+".join(others))[: LONGEST - len(seed) - 1] if others else ""
    return "+".join(filter(None, [name, seed])) or "default"


def without_folder(override: str) -> str:
    """An override by whose value weights are found, with the last part of their path alone: it says enough of them."""
    key, _, value = override.partition("=")
    return f"{key}={Path(value).name}" if key == "weights" else override


NOT_FILLED = ("defaults", "hydra", "overrides")


def fill(cfg: DictConfig) -> None:
    """Give a training's config of an earlier version the plain keys that it lacks, with their default. A run from
    before there was a native library had PyTorch's operations.
    """
    if "native" not in cfg:
        cfg.native = False
    content = yaml.safe_load(DEFAULTS.read_text(encoding="utf-8"))
    for key, value in content.items():
        if key in NOT_FILLED or value == "???":
            continue
        if key not in cfg:
            cfg[key] = value
        elif isinstance(value, dict) and isinstance(cfg[key], DictConfig):
            cfg[key] = {**value, **OmegaConf.to_container(cfg[key])}  # type: ignore[dict-item]

"""The identity of a run: a hash over everything that can change its result."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast

import yaml
from omegaconf import DictConfig, OmegaConf

from asr_ablations.tools.content_keys import content_key
from asr_ablations.tools.files import DEFAULTS, slug

Config: TypeAlias = dict[str, Any]
"""A resolved config, or a part of one: foreign content, whose keys the components define."""

BEHAVIOUR = 4
"""Raised when the code changes the numbers of an unchanged config on purpose, so that runs before and after differ in
identity."""


MACHINE_KEYS = (
    *("sweep", "ablation", "overrides", "outputs", "logger", "workers", "progress", "hardware"),
    *("force", "plan", "threads", "checkpoint_minutes", "utilisation_seconds", "transcripts"),
    *("pruning", "until", "arms", "arm", "weights"),
)
"""Keys that only steer the machine or name the run: they change no number, and are not part of a run's identity."""


WHEREABOUTS = ("root", "download")
"""Keys of data that say where it lies or comes from; the fingerprint tells what it is."""


def content(cfg: DictConfig) -> Config:
    """Everything in the config that can change the result."""
    whole = cast(Config, OmegaConf.to_container(cfg, resolve=True))
    return determining(whole)


SHA256 = "_sha256"
"""End of a key that holds the hash of what the key before it names: `folder_sha256` of `folder`."""
ROLES = ("train", "validation", "test")
"""Keys of data that take one name or several."""


def by_content(node: Config) -> Config:
    """A resolved config, or a part of one, with equal content in one form: a file or folder whose hash stands beside it
    counts by the hash and not by its path, and a list of one split as its name.
    """
    located = {key for key, value in node.items() if value is not None and node.get(f"{key}{SHA256}") is not None}
    return {key: _by_content(key, value) for key, value in node.items() if key not in located}


def _by_content(key: str, value: Any) -> Any:
    if isinstance(value, dict):
        inner = by_content(value)
        if key == "data":
            several = {role: inner[role] for role in ROLES if isinstance(inner.get(role), list)}
            inner |= {role: names[0] for role, names in several.items() if len(names) == 1}
        return inner
    return [_by_content("", entry) for entry in value] if isinstance(value, list) else value


def determining(whole: Config) -> Config:
    """Everything in a resolved config that can change the result."""
    whole = by_content(whole)
    without = {"data": WHEREABOUTS, "cache": ("root", "gigabytes")}  # where it lies and how large it may be
    kept: Config = {
        key: {name: child for name, child in value.items() if name not in without[key]}
        if key in without and isinstance(value, dict)
        else value
        for key, value in whole.items()
        if key not in MACHINE_KEYS
    }
    if "gpus" in kept:  # the device changes rounding, the number of ranks the batch
        kept["ranks"] = ranks(kept)
        del kept["gpus"]
    return kept


def ranks(cfg: DictConfig | Config) -> int:
    """Processes that train together: one per GPU, or the key `ranks`."""
    if cfg.get("ranks") is not None:
        return int(cfg["ranks"])
    gpus = cfg["gpus"]
    return gpus if isinstance(gpus, int) and gpus > 1 else 1


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


def flatten(node: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """The leaves of a config by dotted key. A list is a single leaf, and so is an object without keys."""
    leaves: dict[str, object] = {}
    for key, value in node.items():
        if isinstance(value, Mapping) and value:
            leaves |= flatten(value, f"{prefix}{key}.")
        else:
            leaves[f"{prefix}{key}"] = value
    return leaves


def differences(first: object, second: object, prefix: str = "") -> list[tuple[str, object, object]]:
    """(dotted key, first value, second value) of every value that differs; None for what is missing."""
    if isinstance(first, dict) and isinstance(second, dict):
        keys = sorted({*first, *second}, key=str)
        return [change for key in keys for change in differences(first.get(key), second.get(key), f"{prefix}{key}.")]
    return [] if first == second else [(prefix.removesuffix("."), first, second)]


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

"""Find the part of a config that can change a run's result, and list the differences between configs."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

Config: TypeAlias = dict[str, Any]  # a resolved config, or a part of one; its keys depend on the components

MACHINE_KEYS = (
    *("sweep", "ablation", "overrides", "outputs", "logger", "workers", "progress", "hardware"),
    *("force", "plan", "threads", "checkpoint_minutes", "utilisation_seconds", "transcripts"),
    *("pruning", "until", "arms", "arm", "weights"),
)  # keys that change neither a run's result nor its identity, such as names and machine settings

WHEREABOUTS = ("root", "download")  # keys under `data` that only locate a corpus; a fingerprint identifies it

SHA256 = "_sha256"  # suffix of keys for file hashes: `folder_sha256` is the hash of `folder`

ROLES = ("train", "validation", "test")  # keys under `data` whose value is a split name or a list of split names


def by_content(node: Config) -> Config:
    """Normalise a resolved config, or a part of one, to make equivalent configs equal.

    A path with a hash next to it is removed, because the hash identifies the file or folder. A list of one split
    becomes the split's name.
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
    """Return the part of a resolved config that can change a run's result."""
    whole = by_content(whole)
    without = {"data": WHEREABOUTS, "cache": ("root", "gigabytes")}  # paths and cache size change no result
    content: Config = {
        key: {name: child for name, child in value.items() if name not in without[key]}
        if key in without and isinstance(value, dict)
        else value
        for key, value in whole.items()
        if key not in MACHINE_KEYS
    }
    if "gpus" in content:  # the choice of GPUs affects only rounding, but each rank adds a batch to every update
        content["ranks"] = ranks(content)
        del content["gpus"]
    return content


def ranks(cfg: Mapping[str, Any]) -> int:
    """Return the number of processes (ranks) that train a model: the key `ranks` if it is set, else one per GPU."""
    if cfg.get("ranks") is not None:
        return int(cfg["ranks"])
    gpus = cfg["gpus"]
    return gpus if isinstance(gpus, int) and gpus > 1 else 1


def flatten(node: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Return the leaf values of a nested config by dotted key. A list or an empty mapping is a single leaf."""
    leaves: dict[str, object] = {}
    for key, value in node.items():
        if isinstance(value, Mapping) and value:
            leaves |= flatten(value, f"{prefix}{key}.")
        else:
            leaves[f"{prefix}{key}"] = value
    return leaves


def differences(first: object, second: object, prefix: str = "") -> list[tuple[str, object, object]]:
    """Return (dotted key, first value, second value) for each difference between configs. A missing value is None."""
    if isinstance(first, dict) and isinstance(second, dict):
        keys = sorted({*first, *second}, key=str)
        return [change for key in keys for change in differences(first.get(key), second.get(key), f"{prefix}{key}.")]
    return [] if first == second else [(prefix.removesuffix("."), first, second)]


LIST, OWN = "arms", "arm"  # keys of a run's config: the sweep's list of arms, and the name of the run's arm

NOT_COMPARED = (*MACHINE_KEYS, "seed", *(f"data.{key}" for key in WHEREABOUTS), "cache.root")


def within(key: str, roots: Iterable[str]) -> bool:
    """Return whether a dotted key is one of the roots or lies below one, as `model.width` lies below `model`."""
    return any(key == root or key.startswith(f"{root}.") for root in roots)


def leaves(config: Config) -> dict[str, object]:
    """Return all config values, except the seed, that can change a run's result, by dotted key.

    A path below the top level that has a hash is replaced by the file's name and the first digits of the hash.
    """
    whole, typed = flatten(by_content(config)), flatten(config)
    for key in [key for key in whole if key.endswith(SHA256) and typed.get(key.removesuffix(SHA256)) and "." in key]:
        path = key.removesuffix(SHA256)
        whole[path] = f"{Path(str(typed[path])).name} {str(whole.pop(key))[:8]}"
    return {key: value for key, value in whole.items() if value != {} and not within(key, NOT_COMPARED)}

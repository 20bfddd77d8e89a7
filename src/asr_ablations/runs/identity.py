"""The identity of a run: a hash of everything that affects its result."""

import functools
import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, cast

import yaml
from omegaconf import DictConfig, OmegaConf

from asr_ablations.runs.layout import CONFIG, ENVIRONMENT, OVERRIDES, STATUS, last_checkpoint
from asr_ablations.runs.reader import load_yaml
from asr_ablations.tools.content_keys import content_key, hash_file, hash_files, visible_files
from asr_ablations.tools.files import CONF, DEFAULTS, expanded
from asr_verdicts.config import MACHINE_KEYS, SHA256, WHEREABOUTS, Config, determining, flatten
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.files import slug

BEHAVIOUR = 4
"""Version of the code's behaviour, increased when a code change intentionally alters results of unchanged configs."""


def content(cfg: DictConfig) -> Config:
    """Return the part of a config that can change results."""
    return determining(cast(Config, OmegaConf.to_container(cfg, resolve=True)))


def identity(cfg: DictConfig, fingerprint: str = "") -> str:
    """Return a run's identity: eight hexadecimal digits of a hash of its config, its data and BEHAVIOUR."""
    return identity_of(content(cfg), fingerprint)


def identity_of(content: Config, fingerprint: str) -> str:
    """Return a run's identity. content: the part of the run's config that can change results."""
    return content_key(8, config=_normalise_numbers(content), data=fingerprint, behaviour=BEHAVIOUR)


def _normalise_numbers(value: Any) -> Any:
    """Replace floats such as 1.0 with integers at any depth, because users write the same number either way."""
    if isinstance(value, dict):
        return {key: _normalise_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_normalise_numbers(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def of_the_experiment(overrides: Iterable[str]) -> list[str]:
    """Return the overrides that affect the experiment, but not machine settings or file locations."""
    keys = (*(key for key in MACHINE_KEYS if key != "weights"), *(f"data.{key}" for key in WHEREABOUTS), "cache.root")
    machine = (*(f"{key}{mark}" for key in keys for mark in "=.@"), "hydra")
    return [override for override in overrides if not override.lstrip("+~").startswith(machine)]


LISTED = re.compile(r"\+(\w+)@\1\.(\w+)=\2")
"""Matches an override that places an option of a group below the group's key, by its own name."""
LONGEST, LONGEST_SWEEP = 80, 60  # maximum number of characters of a run's name and of a sweep's name


def short_name(overrides: Iterable[str], constant: Collection[str] | None = None) -> str:
    """Shorten overrides to a readable run name, which need not be unique. The seed comes last and is never cut off.

    constant: overrides that all runs of a sweep share, and that the name omits; None outside a sweep.
    """
    words = of_the_experiment(overrides)
    if constant is None:
        words = [word for word in words if not word.startswith("gpus=")]
    else:
        words = [word for word in words if word not in constant]
    seed = next((slug(word.replace("=", "-")) for word in words if word.startswith("seed=")), "")
    others = [shortened(word).replace("=", "-") for word in words if not word.startswith("seed=")]
    name = _cut(slug("+".join(others)), LONGEST - len(seed) - 1) if others else ""
    return "+".join(filter(None, [name, seed])) or "default"


def name_sweep(overrides: Iterable[str], varied: Collection[str]) -> str:
    """Name a sweep by its overrides; if they are too long, only by those that it varies, and a hash of all."""
    words = [word for word in of_the_experiment(overrides) if not word.startswith("gpus=") or word in varied]
    words.sort(key=lambda word: (word not in varied, word.startswith("seed=")))
    name = slug("+".join(word.replace("=", "-") for word in map(shortened, words)))
    if not words or len(name) <= LONGEST_SWEEP:
        return name if words else "default"
    name = slug("+".join(word.replace("=", "-") for word in map(shortened, words) if word in varied))
    return f"{_cut(name, LONGEST_SWEEP)}-{content_key(4, overrides=sorted(words))}"


def _cut(name: str, longest: int) -> str:
    """Cut a name between two of its words, or in its first word if that is too long by itself."""
    return name if len(name) <= longest else name[: longest + 1].rpartition("+")[0] or name[:longest]


def shortened(override: str) -> str:
    """Shorten weights=<path> to the last part of the path, and +callbacks@callbacks.mine=mine to callbacks=mine."""
    key, _, value = override.partition("=")
    return f"{key}={Path(value).name}" if key == "weights" else LISTED.sub(r"\1=\2", override)


def fill(cfg: DictConfig) -> None:
    """Add defaults for plain keys that a config from an earlier version lacks; a missing `native` becomes false."""
    if "native" not in cfg:
        cfg.native = False
    for key, value in yaml.safe_load(DEFAULTS.read_text(encoding="utf-8")).items():
        if key in ("defaults", "hydra", "overrides") or value == "???":
            continue
        if key not in cfg:
            cfg[key] = value
        elif isinstance(value, dict) and isinstance(cfg[key], DictConfig):
            cfg[key] = {**value, **OmegaConf.to_container(cfg[key])}  # type: ignore[dict-item]


REFERENCE = re.compile(r"\$\{(\.?[A-Za-z_][\w.]*\w)\}")
"""An OmegaConf interpolation of another key. A leading dot means a key at the same level."""


def derived_keys(config: Config) -> dict[str, list[str]]:
    """Return the config's keys that conf/ derives from other keys or groups, each with the keys and groups it uses."""
    keys = flatten(config)
    return {key: sources for key, sources in _read_references().items() if key in keys}


@functools.cache
def _read_references() -> dict[str, list[str]]:
    """Return the derived keys in conf/ with their sources: interpolated keys, and groups whose options set the key."""
    references: dict[str, list[str]] = {}
    for path in sorted(CONF.rglob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        group = ".".join(path.parent.relative_to(CONF).parts)
        everywhere = "@package _global_" in text
        if "${" not in text and not everywhere:
            continue  # parsing every file would be slow
        content = load_yaml(text) or {}
        for key in _keys_chosen_by(content):
            references[key] = [*dict.fromkeys([*references.get(key, []), group])]
        for key, value in flatten(content).items():
            place = key if everywhere or not group else f"{group}.{key}"
            names = REFERENCE.findall(value) if isinstance(value, str) else []
            sources = [f"{place.rpartition('.')[0]}{name}" if name.startswith(".") else name for name in names]
            if everywhere and key != group and not key.startswith(f"{group}."):
                sources.append(group)
            references[place] = [*dict.fromkeys([*references.get(place, []), *sources])]
    return {key: sources for key, sources in references.items() if sources}


def _keys_chosen_by(content: Config) -> list[str]:
    """Return the keys of all options of the groups from which an option's file chooses, as model=wav2vec2 does."""
    entries = [key for entry in content.get("defaults", []) if isinstance(entry, dict) for key in entry]
    chosen = [key.removeprefix("override /") for key in entries if key.startswith("override /")]
    files = [(group, file) for group in chosen for file in sorted((CONF / group).glob("*.yaml"))]
    return [f"{group}.{key}" for group, file in files for key in flatten(load_yaml(file.read_text("utf-8")) or {})]


def weights_file(path: str) -> Path:
    """Return the checkpoint that `weights` names: a run's last, or a .ckpt file. Raises UsageError if it is missing."""
    given = expanded(path, "weights")
    file = last_checkpoint(given) if given.is_dir() else given
    if not file.is_file():
        raise choices("weights", path, f"a run's folder or a .ckpt, but there is no {file}")
    return file


def sha256_of_weights(path: str | None) -> str | None:
    """Resolve ${sha256_of_weights:…} to the SHA-256 of the checkpoint; None if `weights` is null."""
    return None if path is None else hash_file(weights_file(str(path)))


RECORDS = (CONFIG, ENVIRONMENT, OVERRIDES, STATUS, "lm.json")
"""Files that only describe how and when a folder's other files were created."""


def sha256_of(path: object) -> str | None:
    """Resolve ${sha256_of:…} to the SHA-256 of a file, a run, or a folder (except hidden files and RECORDS).

    The hash of a run covers its last checkpoint and its config. The result is None if the file is missing, because the
    code that reads the file reports the error.
    """
    if not isinstance(path, str) or not path:
        return None
    given = expanded(path)
    if given.is_dir() and not last_checkpoint(given).is_file():
        return hash_files((file for file in visible_files(given) if file.name not in RECORDS), given)
    file = last_checkpoint(given) if given.is_dir() else given
    if not file.is_file():
        return None
    configs = [folder / CONFIG for folder in (file.parent, file.parent.parent) if file.suffix == ".ckpt"]
    config = next(filter(Path.is_file, configs), None)
    return hash_file(file) if config is None else content_key(64, files=[hash_file(file), hash_file(config)])


def refuse_changed_files(node: object, place: str = "") -> None:
    """Raise UsageError if a file or folder in a resolved config has changed since the config was composed."""
    if isinstance(node, list):
        node = dict(enumerate(node))
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        refuse_changed_files(value, f"{place}{key}.")
        path = node.get(str(key).removesuffix(SHA256)) if str(key).endswith(SHA256) and place else None
        if path is not None and value is not None and (actual := sha256_of(path)) != value:
            raise UsageError(
                f"{place}{key}: {path} has changed since this config was composed: its SHA-256 was {value} and is now "
                f"{actual or 'unknown, because the file is missing'}"
            )

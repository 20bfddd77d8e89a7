"""The keys that may be added to a config: one that nothing reads would be a choice without effect."""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import yaml
from hydra._internal.config_repository import IConfigRepository
from hydra.core.default_element import ResultDefault
from omegaconf import DictConfig, OmegaConf

from asr_ablations.config.targets import groups, options_of
from asr_ablations.tools.files import CONF
from asr_verdicts.errors import UsageError, choices

TRAINING = "config"
"""The file of conf/ that a training begins with: the nearest key is likely one of its."""
OF_HYDRA = ("defaults", "hydra")
READS = {
    "language_model": ("lm", "data", "alphabet", "seed", "outputs", "sweep", "force", "logger"),
    "prepare": ("data", "alphabet", "features", "model", "outputs"),
}
"""By the file that a command begins with, the groups and keys of a training config that it reads, where it does not
read all of them. prepare: what reaches its table, and outputs, a folder for what comes later.
"""
FREE = ("ablation", "hydra")
"""Keys below which others have their own check."""
COULD_NOT = re.compile(r"Could not override '([^'@]+)'")
"""Start of Hydra's message for a refused key; it continues with the advice to add it."""
NOT_MERGED = re.compile(r"Error merging override (\w+)=(.*)")
"""Hydra's message for a list or a text in place of keys."""
ELSEWHERE = {
    "weights": ("ckpt_path", "checkpoint_path", "finetune"),
    "max_epochs": ("epochs", "num_epochs", "trainer.max_epochs"),
    "optimizer.lr": ("learning_rate", "optim.lr"),
    "batch.size": ("bs", "train_batch_size"),
    "batch.accumulate": ("accumulate_grad_batches", "trainer.accumulate_grad_batches"),
    "gpus": ("devices", "num_gpus", "trainer.devices"),
    "workers": ("num_workers", "data.num_workers"),
    "width": ("hidden_size", "hidden_dim"),
    "layers": ("num_layers", "n_layers"),
    "schedule": ("scheduler", "lr_scheduler"),
    "stopping": ("early_stopping", "callbacks"),
    "gradient.limit": ("gradient_clip_val", "trainer.gradient_clip_val"),
    "sweep": ("experiment_name", "task_name"),
    "-cd sweeps -cn <name>": ("experiment", "hparams_search"),
}
"""A key, or what is typed in its place, with what templates and toolkits of the field call it."""


def check_added(overrides: object, config: Mapping[str, object]) -> None:
    """Raises UsageError, with the nearest known keys, for a key that `+key=value` added and that nothing reads.

    Hydra itself refuses a key that is new without the +. Keys below a group are for the class that the group builds: it
    refuses those that it does not take. config: what they were added to.
    """
    words = [word for word in overrides if isinstance(word, str)] if isinstance(overrides, list) else []
    for key in (word.lstrip("+").partition("=")[0].rpartition("@")[2] for word in words if word.startswith("+")):
        first, _, below = key.partition(".")
        plain, groups = _known_anywhere()
        if first in (*groups, *FREE) or first not in config:  # an option of a group beside the sweep file is no key
            continue
        inner = plain.get(first)
        if first not in plain or (below and isinstance(inner, dict) and below not in inner):
            raise unknown(key, config)


@cache
def _known_anywhere() -> tuple[dict[str, object], frozenset[str]]:
    """Plain keys and groups of all files that a command begins with."""
    plain: dict[str, object] = {}
    groups: frozenset[str] = frozenset()
    for file in sorted(CONF.glob("*.yaml")):
        own, more = known(file.stem)
        plain, groups = {**own, **plain}, groups | more
    return plain, groups


@cache
def known(primary: str) -> tuple[dict[str, object], frozenset[str]]:
    """The plain keys of a file of conf/ with their values, and the groups that it chooses from, those of the files that
    it begins with included.
    """
    content = yaml.safe_load((CONF / f"{primary}.yaml").read_text(encoding="utf-8"))
    plain = {key: value for key, value in content.items() if key not in OF_HYDRA}
    groups: frozenset[str] = frozenset()
    for entry in content.get("defaults", []):
        if isinstance(entry, dict):
            groups |= {key.removeprefix("override ").strip("/") for key in entry}
        elif entry != "_self_":
            inherited, more = known(entry.strip("/"))
            plain, groups = {**inherited, **plain}, groups | more
    return plain, groups


def refused_by_hydra(message: str) -> str | None:
    """The message for a key that Hydra refuses, in place of its advice to add it; None if Hydra says
    something else.
    """
    match = COULD_NOT.match(message)
    return None if match is None else str(unknown(match[1], _everything()))


@cache
def _everything() -> dict[str, object]:
    """Plain keys of all commands, and every group with the keys of all its options."""
    plain, _ = _known_anywhere()
    first = sorted(groups(), key=lambda group: group not in known(TRAINING)[1])
    nodes = {group: options_of(group) for group in first}
    return {**plain, **{group: {key: None for node in listed for key in node} for group, listed in nodes.items()}}


def not_keys(message: str) -> str | None:
    """The message for a value in place of keys, from Hydra's message; None if Hydra says something else."""
    match = NOT_MERGED.match(message)
    return None if match is None else str(_keys_expected(match[1], match[2]))


def check_shapes(config: Mapping[str, object]) -> None:
    """Raises UsageError for a value in place of the keys below a plain key."""
    plain, _ = _known_anywhere()
    for key, value in config.items():
        if isinstance(plain.get(key), dict) and not isinstance(value, Mapping):
            raise _keys_expected(key, value)


def _keys_expected(key: str, value: object) -> UsageError:
    below = _known_anywhere()[0].get(key)
    name, first = next(iter(below.items()), ("", None)) if isinstance(below, dict) else ("", None)
    example = f", as {key}.{name}={'<value>' if first is None else first}" if name else ""
    return choices(key, value, f"keys below it{example}")


def unread(overrides: object, primary: str) -> str | None:
    """A line on what was typed and changes nothing in a command that reads only some keys and groups of a training
    config; None where all of it is read. A training's command line may stand there as it is, so this is no mistake.

    primary: one of READS.
    """
    words = [str(word) for word in overrides] if isinstance(overrides, Sequence) else []
    typed = [word.lstrip("+").partition("=")[0] for word in words]
    others = [
        key for key in dict.fromkeys(typed) if not key.startswith("hydra") and key.split(".")[0] not in READS[primary]
    ]
    return f"not read here: {', '.join(others)}; src/train.py does" if others else None


def unknown(key: str, config: Mapping[str, object]) -> UsageError:
    """The last part of a key may be right in another place: lr is optimizer.lr. A group that no default chooses from is
    added, where its files are of keys outside it.
    """
    if files := sorted((CONF / key).glob("*.yaml")):
        added = [file.stem for file in files if "@package _global_" in file.read_text(encoding="utf-8")]
        if not added:
            return UsageError(f"{key}: this command reads nothing of conf/{key}")
        options = ", ".join(f"+{key}={name}" for name in added)
        return UsageError(f"{key}: nothing is chosen from it by default; expected {options}")
    dotted = [name for name in _dotted(config) if name != key and not name.startswith(f"{key}.") and "._" not in name]
    last = key.rpartition(".")[2]
    same = [name for name in dotted if name.rpartition(".")[2] == last]
    usual = [name for name, others in ELSEWHERE.items() if key in others and (name in dotted or name.startswith("-"))]
    near = [*usual, *same, *difflib.get_close_matches(key, dotted, n=3)]
    near = near or [name for name in dotted if key.startswith(f"{name}_")]
    hint = f"nearest: {', '.join(dict.fromkeys(near))}" if near else "--help keys lists them"
    return UsageError(f"{key}: there is no such key; {hint}")


def _dotted(config: Mapping[str, object], prefix: str = "") -> Iterator[str]:
    for key, value in config.items():
        yield f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{prefix}{key}.")


REFERENCE = re.compile(r"\$\{([\w.]+)\}")


def refuse_unread(defaults: Sequence[ResultDefault], repository: IConfigRepository, merged: DictConfig) -> None:
    """Raises UsageError, with the nearest known keys, for a key of the file that a command begins with, where that file
    builds on another one, none of the files merged with it has the key, and nothing refers to it.
    """
    own: dict[str, object] = {}
    inherited: dict[str, object] = dict.fromkeys((*OF_HYDRA, *FREE))
    builds_on_another = False
    for default in defaults:
        content = _content(default.config_path, repository)
        if default.primary:
            own = content
        elif default.package:
            inherited.setdefault(default.package.split(".")[0], None)
        else:
            inherited = {**content, **inherited}
            builds_on_another = builds_on_another or (default.is_self and "/" not in str(default.config_path))
    wrong = [*_beyond(own, inherited)] if builds_on_another else []
    if wrong:
        referred = [*_references([OmegaConf.to_container(merged), *_other_options(defaults, repository)])]
        for key in wrong:
            if not any(reference == key or reference.startswith(f"{key}.") for reference in referred):
                raise unknown(key, inherited)


def refuse_unread_groups(defaults: Sequence[ResultDefault]) -> None:
    """Raises UsageError for an option that `+group=option` puts below a key that nothing of the command reads."""
    begun = [path for default in defaults if "/" not in (path := str(default.config_path)) and _is_of_conf(path)]
    chosen_from = {group for path in begun for group in known(path)[1]}
    for default in defaults if begun else ():
        group, _, name = str(default.config_path).rpartition("/")
        if group in groups() and default.package == group and group not in chosen_from:
            raise UsageError(f"{group}={name}: this command reads nothing of conf/{group}")


def _is_of_conf(path: str) -> bool:
    return (CONF / f"{path}.yaml").is_file()


def _other_options(defaults: Sequence[ResultDefault], repository: IConfigRepository) -> Iterator[dict[str, object]]:
    """The options that an arm may choose in the groups of the file: an option may refer to a key of it."""
    primary = next((default.config_path for default in defaults if default.primary), None)
    for default in defaults:
        group = str(default.config_path).rpartition("/")[0]
        if group and default.parent == primary:
            for name in repository.get_group_options(group):
                yield _content(f"{group}/{name}", repository)


def _content(path: str | None, repository: IConfigRepository) -> dict[str, object]:
    loaded = None if path is None else repository.load_config(path)
    content = None if loaded is None else OmegaConf.to_container(loaded.config)
    return {str(key): value for key, value in content.items()} if isinstance(content, dict) else {}


def _beyond(own: Mapping[str, object], inherited: Mapping[str, object]) -> Iterator[str]:
    """The keys that are new, and new ones below plain keys that have others below them."""
    for key, value in own.items():
        other = inherited.get(key)
        if key not in inherited:
            yield key
        elif isinstance(value, dict) and isinstance(other, dict) and "_target_" not in other:
            yield from (f"{key}.{name}" for name in value if name not in other)


def _references(node: object) -> Iterator[str]:
    """The keys that values are interpolated from."""
    if isinstance(node, (dict, list)):
        for value in node.values() if isinstance(node, dict) else node:
            yield from _references(value)
    elif isinstance(node, str):
        yield from REFERENCE.findall(node)

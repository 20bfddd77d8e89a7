"""Refuse keys that a command does not read, because typing them would have no effect."""

import difflib
import re
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path

import yaml
from hydra.core.config_store import ConfigStore
from hydra.core.default_element import ResultDefault
from omegaconf import DictConfig, OmegaConf

from asr_ablations.config.targets import groups, options_by_name
from asr_ablations.tools.files import CONF
from asr_verdicts.config import flatten
from asr_verdicts.errors import UsageError, choices

READS = {
    "language_model": ("lm", "data", "alphabet", "seed", "outputs", "sweep", "force", "logger"),
    "prepare": ("data", "alphabet", "features", "model", "outputs", "weights"),
}
"""Groups and keys of a training config that a command reads, by the command's file in conf/. Commands without an entry
read all keys of their file.
"""
FREE = ("ablation", "hydra")
"""Keys whose contents other modules check."""
REFERENCE = re.compile(r"\$\{([\w.]+)\}")
NEAREST = 2
"""Maximum number of keys that an error message proposes in place of a wrong key."""
ELSEWHERE = {
    "epochs": "max_epochs", "learning_rate": "optimizer.lr", "bs": "batch.size", "accumulate_grad_batches":
    "batch.accumulate", "ckpt_path": "weights", "checkpoint_path": "weights", "finetune": "weights", "devices": "gpus",
    "num_workers": "workers", "hidden_size": "width", "hidden_dim": "width",
    "gradient_clip_val": "gradient.limit", "experiment_name": "sweep", "experiment": "-cd sweeps -cn <name>",
    "fast_dev_run": "debug=fast", "limit_train_batches": "debug=fast", "limit_val_batches": "debug=fast",
    "limit_test_batches": "debug=fast", "overfit_batches": "debug=overfit", "profiler": "debug=profile",
    "accelerator": "gpus", "max_steps": "max_epochs", "max_time": "hydra.launcher.timeout=<minutes> ends an arm of -m",
    "val_check_interval": "validation follows every epoch", "check_val_every_n_epoch": "validation follows every epoch",
    "gpus_per_node": "gpus", "tasks_per_node": "gpus", "cpus_per_task": "hydra.launcher.cpus",
    "mem_gb": "hydra.launcher.memory", "timeout_min": "hydra.launcher.minutes", "n_jobs": "hydra.launcher.jobs",
    "array_parallelism": "hydra.launcher.jobs", "slurm_array_parallelism": "hydra.launcher.jobs",
}  # fmt: skip
"""Keys of Lightning, submitit, other toolkits and templates, each with the key that does it here, or an explanation."""


@cache
def read_keys(primary: str) -> tuple[dict[str, object], frozenset[str]]:
    """Return the keys (with values) and the groups that a file in conf/ sets, including files that it extends."""
    content = yaml.safe_load((CONF / f"{primary}.yaml").read_text(encoding="utf-8"))
    plain = {key: value for key, value in content.items() if key not in ("defaults", "hydra")}
    chosen: frozenset[str] = frozenset()
    for entry in content.get("defaults", []):
        if isinstance(entry, dict):
            chosen |= {key.removeprefix("override ").strip("/") for key in entry}
        elif entry != "_self_":
            inherited, more = read_keys(entry.strip("/"))
            plain, chosen = {**inherited, **plain}, chosen | more
    return plain, chosen


def read_command(primary: str) -> tuple[dict[str, object], list[str]]:
    """Return the plain keys (with values) and the groups that a command reads."""
    plain, chosen = read_keys(primary)
    reads = {*READS.get(primary, (*plain, *chosen))}
    return {key: value for key, value in plain.items() if key in reads}, sorted(chosen & reads)


@cache
def read_every_key() -> dict[str, object]:
    """Return the plain keys (with values) of all commands."""
    files = sorted((file.stem for file in CONF.glob("*.yaml")), reverse=True)
    return {key: value for file in files for key, value in read_keys(file)[0].items()}


def expect_keys(key: str, value: object) -> UsageError:
    """Return the error for a key that was set to a value although it has keys below it."""
    below = read_every_key().get(key)
    return choices(key, value, f"keys below it: {', '.join(below)}" if isinstance(below, dict) else "keys below it")


def print_unread(cfg: DictConfig, primary: str) -> None:
    """Print the keys on the command line that training reads, but this command does not."""
    words: list[str] = OmegaConf.to_container(cfg.overrides)  # type: ignore[assignment]
    typed = dict.fromkeys(word.lstrip("+").partition("=")[0] for word in words)
    others = [key for key in typed if not key.startswith("hydra") and key.split(".")[0] not in READS[primary]]
    if others:
        print(f"not read here: {', '.join(others)} (src/train.py reads them)")


def refuse_unread(cfg: DictConfig, primary: str, defaults: Iterable[ResultDefault], folders: Iterable[Path]) -> None:
    """Raise UsageError for a key that the command does not read, unless another value refers to it.

    - defaults: config files that were composed
    - folders: folders with all options, because an arm may choose an option that refers to the key
    """
    plain, chosen = read_keys(primary)
    users = (default for default in defaults if str(default.config_path).split("/")[0] not in groups())
    read = {*plain, *chosen, *FREE, *(str(default.package).split(".")[0] for default in users)}
    wrong = [key for key in map(str, cfg) if key not in read]
    for key, values in plain.items():
        if (
            isinstance(values, dict)
            and values
            and key not in FREE
            and isinstance(node := cfg._get_node(key), DictConfig)
        ):
            wrong += [f"{key}.{name}" for name in map(str, node) if name not in values]
    if not wrong:
        return
    options = "\n".join(file.read_text("utf-8") for folder in folders for file in folder.glob("*/*.yaml"))
    referred = REFERENCE.findall(OmegaConf.to_yaml(cfg) + options)
    for key in wrong:
        if not any(reference == key or reference.startswith(f"{key}.") for reference in referred):
            raise refuse_key(key, primary)


def refuse_key(key: str, primary: str) -> UsageError:
    """Return the error for a key that a command does not read. It lists similar keys, or options to add."""
    if files := sorted((CONF / key).glob("*.yaml")):
        if any(key in read_keys(file.stem)[1] for file in CONF.glob("*.yaml")):
            return UsageError(f"{key}: this command does not use conf/{key}")
        options = ", ".join(f"+{key}={file.stem}" for file in files)
        return UsageError(f"{key}: not used by default; expected {options}")
    plain, chosen = read_command(primary)
    if key.startswith("hydra.launcher."):
        stored = ConfigStore.instance().repo["hydra"]["launcher"].values()
        return UsageError(
            f"{key}: {propose_keys(key, [*plain, *{f'hydra.launcher.{n}' for s in stored for n in s.node}])}"
        )
    group, _, rest = key.partition(".")
    others = [f"{group}={name}" for name, node in options_by_name(group).items() if rest in flatten(node)]
    if group in chosen and others:
        return UsageError(f"{key}: the chosen {group} has no such key; expected {', '.join(others)}")
    nodes = {group: {name: None for node in options_by_name(group).values() for name in node} for group in chosen}
    return UsageError(f"{key}: {propose_keys(key, {**plain, **nodes, **flatten({**plain, **nodes})})}")


def propose_keys(key: str, names: Collection[str]) -> str:
    """Return a message that proposes similar keys, such as keys with the same last part: optimizer.lr for lr."""
    others = [name for name in names if name != key and not name.startswith(f"{key}.") and "._" not in name]
    last = key.rpartition(".")[2]
    usual = ELSEWHERE.get(last, "")
    if " " in usual and not usual.startswith("-"):
        return f"there is no such key; {usual}"
    if usual in others or "=" in usual or usual.startswith("-"):
        return f"there is no such key; nearest: {usual}"
    same = [name for name in others if name.rpartition(".")[2] == last]
    near = [*same, *difflib.get_close_matches(key, others, n=NEAREST)]
    near = near or [name for name in others if key.startswith(f"{name}_")]
    nearest = ", ".join([*dict.fromkeys(near)][:NEAREST])
    return f"there is no such key; {f'nearest: {nearest}' if near else '--help keys lists them'}"

"""What several test files share: the options of conf/, composed configs, components, changed knobs, shared data."""

import functools
import os
import pickle
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hydra import initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict

from asr_ablations.config.build import build
from asr_ablations.config.compose import look_up_in, use_loader
from asr_verdicts.text import lower, normalisation

REPOSITORY = Path(__file__).resolve().parents[2]
CONF = REPOSITORY / "conf"
SHARED = Path(os.environ.get("ASR_ABLATIONS_SHARED", REPOSITORY.parent / "shared"))


def defaults(config: str = "config") -> dict[str, str]:
    """The groups that a file of conf/ chooses from, with the option that it chooses; the caller's own copy."""
    return dict(_defaults(config))


@functools.cache
def _defaults(config: str) -> dict[str, str]:
    entries = OmegaConf.load(CONF / f"{config}.yaml").get("defaults", [])
    chosen = [item for entry in entries if isinstance(entry, DictConfig) for item in entry.items()]
    return {str(group): str(name) for group, name in chosen if not str(group).startswith("override ")}


def groups() -> list[str]:
    """The config groups of a training: a new one is tested without an edit here."""
    return sorted(defaults())


def group_options(group: str) -> list[str]:
    """The yamls of conf/<group>: a new variant is tested without an edit here."""
    return sorted(file.stem for file in (CONF / group).glob("*.yaml"))


@functools.cache
def _composed(overrides: tuple[str, ...]) -> bytes:
    """A pickled config, read ten times as fast as copied; Hydra composes only what sets more than its node."""
    rest, nodes, values = _apart(overrides)
    if rest == overrides:
        return pickle.dumps(composed_by_hydra(overrides), pickle.HIGHEST_PROTOCOL)
    cfg = pickle.loads(_composed(rest))
    for group, text in nodes.items():
        cfg[group] = OmegaConf.create(text)
    try:
        ConfigLoaderImpl._apply_overrides_to_config(values, cfg)
    except HydraException:
        cfg = composed_by_hydra(overrides)  # raises what a command would
    return pickle.dumps(cfg, pickle.HIGHEST_PROTOCOL)


def _apart(overrides: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, str], list[Override]]:
    """The overrides that Hydra has to compose, the files of groups' nodes, and plain values."""
    parsed = [_plain(word) for word in overrides]
    keys = [re.split("[.=@]", word.lstrip("+~"))[0] for word, value in zip(overrides, parsed, strict=True) if not value]
    rest, nodes = [], {}
    for word in (word for word, value in zip(overrides, parsed, strict=True) if not value):
        group, _, name = word.partition("=")
        text = _file_of(group, name) if group in groups() and group != "callbacks" and keys.count(group) == 1 else None
        if text is None:
            rest.append(word)
        else:
            nodes[group] = text
    return tuple(rest), nodes, [value for value in parsed if value]


OWN_WAY = ("hydra", "precision", "conditions", "logger=", "overrides")


@functools.cache
def _plain(word: str) -> Override | None:
    """An override that sets one key to one value; None for all others."""
    if not re.match(r"[a-z]\w*[.=]", word) or word.startswith(OWN_WAY):
        return None
    try:
        override = OverridesParser.create().parse_override(word)
        simple = not (override.is_sweep_override() or isinstance(override.value(), dict))
    except HydraException:
        return None
    return override if simple and not (CONF / override.key_or_group).is_dir() else None


@functools.cache
def _file_of(group: str, name: str) -> str | None:
    """The text of an option's file; None where there is none, or it sets more than its group, or takes in another."""
    path = CONF / group / f"{name}.yaml"
    text = path.read_text(encoding="utf-8") if path.is_file() else "defaults:"
    return None if "# @package" in text or re.search("^defaults:", text, re.MULTILINE) else text


def composed_by_hydra(overrides: tuple[str, ...], name: str = "config") -> DictConfig:
    """conf/config.yaml, or another command's own config, as the command composes it."""
    look_up_in(CONF)  # a process that a test starts has no conftest.py
    # `overrides` asks Hydra for the command line, which is none here
    cfg = loader(CONF).load_configuration(name, ["overrides=[]", *overrides], RunMode.RUN, from_shell=False)
    with open_dict(cfg):
        del cfg["hydra"]
    return cfg


@functools.cache
def loader(folder: Path) -> ConfigLoader:
    """The commands' own, which reads every file once: Hydra's takes a third of a second for each config."""
    use_loader()
    with initialize_config_dir(version_base="1.3", config_dir=str(folder)):
        hydra = GlobalHydra.instance().hydra
    assert hydra is not None
    return hydra.config_loader


def compose(*overrides: str) -> DictConfig:
    """conf/config.yaml under the overrides; the caller's own copy."""
    return pickle.loads(_composed(overrides))  # type: ignore[no-any-return]


def component(group: str, name: str, **changes: Any) -> Any:
    """What conf/<group>/<name>.yaml describes, with some of its values changed."""
    return build(described(group, name, **changes))


def described(group: str, name: str, **changes: Any) -> DictConfig:
    """conf/<group>/<name>.yaml in the default config, with some of its values changed."""
    node: DictConfig = compose(f"{group}={name}")[group]
    for key, value in changes.items():
        OmegaConf.update(node, key, value)
    return node


def another(value: Any) -> Any:
    """Another value of the same kind that a component is likely to allow: half of it."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value // 2 if value > 1 else value + 1
    return value / 2 if value else 0.01


def shared_data(path: str) -> Path:
    """A file or folder of the shared data; skips the test where it is absent."""
    found = SHARED / "data" / path
    if not found.exists():
        pytest.skip(f"no shared data at {found} (set ASR_ABLATIONS_SHARED to its folder)")
    return found


def shared_tool(path: str) -> Path:
    """A script of the shared tools, an independent reference; skips the test where it is absent."""
    found = SHARED / "tools" / path
    if not found.exists():
        pytest.skip(f"no shared tool at {found} (set ASR_ABLATIONS_SHARED to its folder)")
    return found


def standing_corpus(validation: tuple[str, ...] = ("dev",)) -> Any:
    """As much of a corpus as it takes to assemble a task: no audio."""
    sets = {"train": ["train"], "validation": list(validation), "test": ["test"]}
    return SimpleNamespace(**sets, language="en", normalised=normalisation("case", "en", "data.normalise", lower))


def tiny_overrides(root: Path) -> list[str]:
    """The fixture tiny_corpus as `data`, with batches that it has several of."""
    splits = ["data.train=[train]", "data.validation=[dev]", "data.test=[test]"]
    return ["data=librispeech", f"data.root={root}", *splits, "batch.size=4", "cache=none"]

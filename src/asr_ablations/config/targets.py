"""Find the classes that a config may build: conf/ or a user's folder must name them. A config may be a stranger's.

A user's folder has the layout of conf/, and its files may name the user's classes. It is set by:
- -cd, or the environment variable ASR_ABLATIONS_CONF (folders, separated as in PATH);
- an installed package's entry point in the group `asr_ablations.components`: the dotted name of a folder of configs.
A node with a user's class carries the hash of its source in `_source_`, which is part of a run's identity.
"""

import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

import yaml

from asr_ablations.tools.content_keys import hash_source
from asr_ablations.tools.files import CONF
from asr_verdicts.errors import UsageError

SOURCE_HASH = "_source_"
"""Key with the source hash of a user's class. It is set automatically, and is not an argument."""
MARKS = ("_target_", "_partial_", SOURCE_HASH)
"""Hydra's keys that conf/ uses, and ours. Other keys would pass arguments that no option has."""
GROUP = re.compile(r"\$\{(\w+)\}")
"""A value that refers to another group."""
BORROWED = re.compile(r"/(\w+)@")
"""Start of a defaults list's entry that puts another group's option below a key."""
FOLDERS = "ASR_ABLATIONS_CONF"
"""Environment variable with the user's folders; the processes of arms inherit it."""
ENTRY_POINTS = "asr_ablations.components"
RECORDED = ("asr_ablations", "asr_benchmarks", "torch", "torchaudio", "pytorch_lightning")
"""Packages that the environment of a run records by version and commit: their source is not hashed."""
YAML: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's loader if installed: it is ten times as fast, and every run waits for it."""


@cache
def groups() -> list[str]:
    return sorted(folder.name for folder in CONF.iterdir() if folder.is_dir())


@cache
def contents_by_name(group: str) -> dict[str, dict[str, object]]:
    """Return a group's files by name: each holds a node, or keys of the whole config that include the node."""
    folders = [folder / group for folder in (CONF, *list_user_folders())]
    return {file.stem: _read(file) for folder in folders for file in sorted(folder.glob("*.yaml"))}


@cache
def options_by_name(group: str) -> dict[str, dict[str, object]]:
    """Return the nodes of a group's files by name, including files that set keys of the whole config."""
    contents = contents_by_name(group)
    nodes = {name: content if "_target_" in content else content.get(group) for name, content in contents.items()}
    return {name: node for name, node in nodes.items() if isinstance(node, dict) and "_target_" in node}


@cache
def null_option(group: str) -> str | None:
    """Return the option that sets the group to null, or None without such an option."""
    contents = contents_by_name(group).items()
    return next((name for name, content in contents if group in content and content[group] is None), None)


@cache
def read_allowed(group: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the targets that a node of a group may have, and the targets that nodes below it may have.

    The group's files name them, or the files of groups that they refer to.
    """
    nodes = options_by_name(group).values()
    files = [_read(file) for file in sorted((CONF / group).rglob("*.yaml"))]
    entries = [key for content in files for entry in content.get("defaults") or () for key in entry]  # type: ignore[attr-defined]
    values = [value for node in nodes for value in node.values() if isinstance(value, str)]
    matches = [*map(BORROWED.match, entries), *map(GROUP.fullmatch, values)]
    others = {match[1] for match in matches if match is not None and match[1] in groups()} - {group}
    below = {target for node in (*nodes, *files) for target in list_targets(node)}
    options = frozenset(str(node["_target_"]) for node in nodes)
    return options, frozenset(below).union(*(read_allowed(other)[1] for other in others))


def check_trusted(key: str | None, node: object) -> None:
    """Refuse a node that would build a class that conf/ does not name in group `key` (None: in any group)."""
    if key is None:
        anything = frozenset().union(*(read_allowed(group)[1] for group in groups()))
        _check(node, "", anything, anything)
    else:
        _check(node, key, *(read_allowed(key) if key in groups() else (frozenset(), frozenset())))


def _check(node: object, place: str, allowed: frozenset[str], below: frozenset[str]) -> None:
    if isinstance(node, list):
        for value in node:
            _check(value, place, allowed, below)
    elif isinstance(node, str) and "${" in node:
        # Hydra resolves once more when it instantiates, and nothing checks the result
        raise UsageError(f"{node}: refused, an interpolation in a resolved config")
    elif isinstance(node, dict):
        target = node.get("_target_")
        if "_target_" in node and not (isinstance(target, str) and target in allowed):
            yours = f"for a class of yours, set the folder with your {place or '<group>'}/<name>.yaml"
            hint = "" if str(target).startswith(("asr_", "torch")) else f"; {yours}: -cd, or {FOLDERS}"
            raise UsageError(f"_target_={target}: refused, no file in conf/{place} names this class{hint}")
        for key, value in node.items():
            if str(key).startswith("_") and key not in MARKS:
                raise UsageError(f"{key}={value}: refused, no option in conf/ has this key")
            _check(value, place, allowed if target is None else below, below)


def _read(file: Path) -> dict[str, object]:
    return yaml.load(file.read_text(encoding="utf-8"), YAML) or {}


def list_targets(node: object) -> Iterator[str]:
    """Yield the targets at any depth of a node."""
    if isinstance(node, dict) and "_target_" in node:
        yield str(node["_target_"])
    if isinstance(node, (dict, list)):
        for value in node.values() if isinstance(node, dict) else node:
            yield from list_targets(value)


def use_folder(folder: Path) -> None:
    """Let a -cd folder's files name the user's classes, in this process and its children.

    Modules may be installed or next to the folder. A folder without an option of a group changes nothing.
    """
    named = os.environ.get(FOLDERS, "")
    path = str(folder.resolve())
    if path not in named.split(os.pathsep) and any([*(folder / group).glob("*.yaml")] for group in groups()):
        os.environ[FOLDERS] = os.pathsep.join(filter(None, [named, path]))


def list_user_folders() -> tuple[Path, ...]:
    """List the user's folders of configs. Raise UsageError if one does not exist or hides an option of this package.

    The parents of folders in ASR_ABLATIONS_CONF are appended to Python's path.
    """
    return _list_user_folders(os.environ.get(FOLDERS, ""))


@cache
def _list_user_folders(paths: str) -> tuple[Path, ...]:
    named = [Path(path) for path in paths.split(os.pathsep) if path]
    for folder in named:
        if not folder.is_dir():
            raise UsageError(f"{FOLDERS}={folder}: there is no such folder")
        if str(folder.resolve().parent) not in sys.path:
            sys.path.append(str(folder.resolve().parent))
    folders = dict.fromkeys([*named, *map(_find_folder, entry_points(group=ENTRY_POINTS))])
    for file in (file for folder in folders for file in folder.glob("*/*.yaml")):
        ours = CONF / file.parent.name / file.name
        if ours.exists() and not file.samefile(ours):  # Hydra would take this package's
            raise UsageError(f"{file}: {file.parent.name}={file.stem} is an option already; give yours another name")
    return tuple(folders)


def _find_folder(point: EntryPoint) -> Path:
    """Find the folder of an entry point without importing its package."""
    top, *below = point.value.split(".")
    for location in getattr(find_spec(top), "submodule_search_locations", None) or []:
        if (folder := Path(location, *below)).is_dir() and below:
            return folder
    place = f"entry point {point.name} = {point.value} of {ENTRY_POINTS}"
    raise UsageError(f"{place}: expected a folder of configs, such as my_package.conf")


def source_hash(target: str) -> str | None:
    """Return the SHA-256 of the source of a user's class; None in a RECORDED package."""
    if target.partition(".")[0] in RECORDED:
        return None
    try:
        return hash_source(target)
    except ModuleNotFoundError as error:
        raise UsageError(f"_target_={target}: {error}") from error

"""The classes that a config may build: those named in conf/ and in the user's own folders, each in its own group. A
config can come from a stranger's run folder.

A user's own folder is laid out as conf/, and its files may name classes of the user's. It is named by -cd, by the
environment variable ASR_ABLATIONS_CONF (folders, separated as in PATH), or by an entry point of an installed package
in the group `asr_ablations.components`, whose value is the dotted name of a folder of configs, as my_package.conf.
A node that builds a class of the user's carries the hash of its source in `_source_`: it is part of a run's identity.
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
"""The hash of the source of a target of the user's. It sets itself, and is not an argument."""
MARKS = ("_target_", "_partial_", SOURCE_HASH)
"""Hydra's keys that conf/ uses, and ours; with others a config would pass arguments that no option has."""
GROUP = re.compile(r"\$\{(\w+)\}")
"""A value that is another group's choice."""
BORROWED = re.compile(r"/(\w+)@")
"""Start of an entry of a defaults list that puts an option of another group below a key."""
FOLDERS = "ASR_ABLATIONS_CONF"
"""Environment variable with the user's folders: the processes of arms get it from the command."""
ENTRY_POINTS = "asr_ablations.components"
RECORDED = ("asr_ablations", "asr_benchmarks", "torch", "torchaudio", "pytorch_lightning")
"""Packages that the environment of a run records by version and commit: their source is not hashed."""
YAML: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's loader if it is installed: ten times as fast, and it runs before every run."""


@cache
def groups() -> list[str]:
    return sorted(folder.name for folder in CONF.iterdir() if folder.is_dir())


@cache
def contents_by_name(group: str) -> dict[str, dict[str, object]]:
    """The contents of a group's files by their names: a node, or keys of the whole config with the node among them."""
    folders = [folder / group for folder in (CONF, *own_folders())]
    return {file.stem: _read(file) for folder in folders for file in sorted(folder.glob("*.yaml"))}


@cache
def options_by_name(group: str) -> dict[str, dict[str, object]]:
    """The nodes of a group's files, also of files that set keys of the whole config."""
    contents = contents_by_name(group)
    nodes = {name: content if "_target_" in content else content.get(group) for name, content in contents.items()}
    return {name: node for name, node in nodes.items() if isinstance(node, dict) and "_target_" in node}


@cache
def null_option(group: str) -> str | None:
    """The name of the option that sets the group to null, or None if the group has no such option."""
    contents = contents_by_name(group).items()
    return next((name for name, content in contents if group in content and content[group] is None), None)


@cache
def read_allowed(group: str) -> tuple[frozenset[str], frozenset[str]]:
    """The targets that a node of a group may have, and those below it: all that the group's files name, or groups in
    them.
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
    """Raise UsageError for a node that would build what conf/ does not name in its group; key None: in any group."""
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
        raise UsageError(f"{node}: refused, an interpolation within a resolved config")
    elif isinstance(node, dict):
        target = node.get("_target_")
        if "_target_" in node and not (isinstance(target, str) and target in allowed):
            yours = f"a class of yours needs the folder with your {place or '<group>'}/<name>.yaml"
            hint = "" if str(target).startswith(("asr_", "torch")) else f"; {yours}: -cd, or {FOLDERS}"
            raise UsageError(f"_target_={target}: refused, no file in conf/{place} names it there{hint}")
        for key, value in node.items():
            if str(key).startswith("_") and key not in MARKS:
                raise UsageError(f"{key}={value}: refused, no option in conf/ has this key")
            _check(value, place, allowed if target is None else below, below)


def _read(file: Path) -> dict[str, object]:
    return yaml.load(file.read_text(encoding="utf-8"), YAML) or {}


def list_targets(node: object) -> Iterator[str]:
    """The targets at any depth of a node."""
    if isinstance(node, dict) and "_target_" in node:
        yield str(node["_target_"])
    if isinstance(node, (dict, list)):
        for value in node.values() if isinstance(node, dict) else node:
            yield from list_targets(value)


def use_folder(folder: Path) -> None:
    """From now on, in this process and those that it starts, the files of a folder of -cd may name classes of the
    user's: of modules in the folder that holds it, or installed. A folder without an option of a group changes nothing.
    """
    named = os.environ.get(FOLDERS, "")
    path = str(folder.resolve())
    if path not in named.split(os.pathsep) and any([*(folder / group).glob("*.yaml")] for group in groups()):
        os.environ[FOLDERS] = os.pathsep.join(filter(None, [named, path]))


def own_folders() -> tuple[Path, ...]:
    """The user's folders of configs. Raise UsageError for one that does not exist, or hides an option of this package.

    The folder that holds one of ASR_ABLATIONS_CONF is on Python's path from then on, at its end.
    """
    return _own_folders(os.environ.get(FOLDERS, ""))


@cache
def _own_folders(paths: str) -> tuple[Path, ...]:
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
    """Find the folder that an entry point means, without importing its package."""
    top, *below = point.value.split(".")
    for location in getattr(find_spec(top), "submodule_search_locations", None) or []:
        if (folder := Path(location, *below)).is_dir() and below:
            return folder
    place = f"entry point {point.name} = {point.value} of {ENTRY_POINTS}"
    raise UsageError(f"{place}: expected a folder of configs, as my_package.conf")


def source_hash(target: str) -> str | None:
    """SHA-256 of the source behind a class of the user's; None in a RECORDED package."""
    if target.partition(".")[0] in RECORDED:
        return None
    try:
        return hash_source(target)
    except ModuleNotFoundError as error:
        folders = ", ".join(dict.fromkeys(str(folder.resolve().parent) for folder in own_folders()))
        where = f"looked at in {folders} and among what is installed" if folders else "among what is installed"
        raise UsageError(f"_target_={target}: {error} ({where})") from error

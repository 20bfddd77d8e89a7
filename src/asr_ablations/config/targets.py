"""Decide which classes a config may build, because a config from another person must not run arbitrary code.

A class is built only if a file in conf/ or in a user's folder names it. A user's folder has the same layout as conf/,
and its files may name the user's own classes. There are two ways to register such a folder:
- the option -cd or the environment variable ASR_ABLATIONS_CONF (folders separated as in PATH);
- an installed package with an entry point in the group `asr_ablations.components`: the dotted name of the folder.
A config node with a user's class stores a hash of the class's source in `_source_`, as part of a run's identity.
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
"""Key for the source hash of a user's class. It is set automatically, and is not an argument of the class."""
MARKS = ("_target_", "_partial_", SOURCE_HASH)
"""Allowed keys that begin with an underscore. Hydra's other keys of this kind could pass undeclared arguments."""
GROUP = re.compile(r"\$\{(\w+)\}")
"""Matches a value that refers to another group."""
BORROWED = re.compile(r"/(\w+)@")
"""Matches an entry in a defaults list that places an option of another group below a key."""
FOLDERS = "ASR_ABLATIONS_CONF"
"""Environment variable that lists the user's folders. Processes that train an arm inherit it."""
ENTRY_POINTS = "asr_ablations.components"
RECORDED = ("asr_ablations", "asr_benchmarks", "torch", "torchaudio", "pytorch_lightning")
"""Packages whose source is not hashed, because each run records their version and commit."""
YAML: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's loader if available, because it is ten times as fast, and every run waits for it."""


@cache
def groups() -> list[str]:
    return sorted(folder.name for folder in CONF.iterdir() if folder.is_dir())


@cache
def contents_by_name(group: str) -> dict[str, dict[str, object]]:
    """Return the contents of a group's files by option name. A file contains a node, or keys of the whole config."""
    folders = [folder / group for folder in (CONF, *list_user_folders())]
    return {file.stem: _read(file) for folder in folders for file in sorted(folder.glob("*.yaml"))}


@cache
def options_by_name(group: str) -> dict[str, dict[str, object]]:
    """Return the config node of each option of a group. Options without a class are left out."""
    contents = contents_by_name(group)
    nodes = {name: content if "_target_" in content else content.get(group) for name, content in contents.items()}
    return {name: node for name, node in nodes.items() if isinstance(node, dict) and "_target_" in node}


@cache
def null_option(group: str) -> str | None:
    """Return the option that sets the group to null, or None if there is no such option."""
    contents = contents_by_name(group).items()
    return next((name for name, content in contents if group in content and content[group] is None), None)


@cache
def read_allowed(group: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the classes that a node of a group may name, and the classes that nodes below it may name.

    The group's files name these classes. Nodes below may also use classes of groups to which the files refer.
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
    """Raise UsageError if a node has a class that no file in the group `key` names (in any group, if `key` is None)."""
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
        # Hydra would resolve the interpolation after this check, when it builds the object
        raise UsageError(f"{node}: refused, because a resolved config may not contain an interpolation")
    elif isinstance(node, dict):
        target = node.get("_target_")
        if "_target_" in node and not (isinstance(target, str) and target in allowed):
            yours = f"for a class of yours, set the folder with your {place or '<group>'}/<name>.yaml"
            hint = "" if str(target).startswith(("asr_", "torch")) else f"; {yours}: -cd, or {FOLDERS}"
            raise UsageError(f"_target_={target}: refused, because no file in conf/{place} names this class{hint}")
        for key, value in node.items():
            if str(key).startswith("_") and key not in MARKS:
                raise UsageError(f"{key}={value}: refused, because no option in conf/ has this key")
            _check(value, place, allowed if target is None else below, below)


def _read(file: Path) -> dict[str, object]:
    return yaml.load(file.read_text(encoding="utf-8"), YAML) or {}


def list_targets(node: object) -> Iterator[str]:
    """Yield the class names at any depth of a node."""
    if isinstance(node, dict) and "_target_" in node:
        yield str(node["_target_"])
    if isinstance(node, (dict, list)):
        for value in node.values() if isinstance(node, dict) else node:
            yield from list_targets(value)


def use_folder(folder: Path) -> None:
    """Allow the classes that the files in a folder name, as with -cd, in this process and its child processes.

    The classes' modules may be installed or next to the folder. A folder without options for any group is ignored.
    """
    named = os.environ.get(FOLDERS, "")
    path = str(folder.resolve())
    if path not in named.split(os.pathsep) and any([*(folder / group).glob("*.yaml")] for group in groups()):
        os.environ[FOLDERS] = os.pathsep.join(filter(None, [named, path]))


def list_user_folders() -> tuple[Path, ...]:
    """List the user's folders of configs. Raise UsageError if one is missing or redefines an option of this package.

    The parent of each folder in ASR_ABLATIONS_CONF is appended to sys.path.
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
        if ours.exists() and not file.samefile(ours):  # Hydra would use this package's file
            raise UsageError(f"{file}: {file.parent.name}={file.stem} is already an option; give yours another name")
    return tuple(folders)


def _find_folder(point: EntryPoint) -> Path:
    """Find the folder that an entry point names, without importing the folder's package."""
    top, *below = point.value.split(".")
    for location in getattr(find_spec(top), "submodule_search_locations", None) or []:
        if (folder := Path(location, *below)).is_dir() and below:
            return folder
    place = f"entry point {point.name} = {point.value} of {ENTRY_POINTS}"
    raise UsageError(f"{place}: expected a folder of configs, such as my_package.conf")


def source_hash(target: str) -> str | None:
    """Return the SHA-256 of the source of a user's class, or None if the class belongs to a package in RECORDED."""
    if target.partition(".")[0] in RECORDED:
        return None
    try:
        return hash_source(target)
    except ModuleNotFoundError as error:
        raise UsageError(f"_target_={target}: {error}") from error

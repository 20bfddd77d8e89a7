"""The classes that a config may build: exactly those named in conf/ and in the user's own folders, each in its own
group. A config can come from a stranger's run folder.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from asr_ablations.config.variants import own_folders
from asr_ablations.tools.files import CONF
from asr_verdicts.errors import UsageError

SOURCE_HASH = "_source_"
"""The hash of the source of a target of the user's own. It sets itself, and is no argument."""
MARKS = ("_target_", "_partial_", SOURCE_HASH)
"""Hydra's own keys that conf/ uses, and ours; with others a config would pass arguments that no option has."""
GROUP = re.compile(r"\$\{(\w+)\}")
"""A value that is what another group has chosen."""
BORROWED = re.compile(r"/(\w+)@")
"""Start of an entry of a defaults list that puts an option of another group below a key."""


@dataclass(frozen=True)
class GroupTargets:
    """The targets in the files of a group. options: the targets of its options; parts: the targets that may stand
    below a key of a target; loose: the targets of its subfolders, which its files put below own keys; borrowed: the
    options of other groups that they put there, as `/rnn@model.layer: lstm` does.
    """

    options: frozenset[str]
    parts: dict[tuple[str, str], frozenset[str]]
    loose: frozenset[str]
    borrowed: frozenset[str] = frozenset()

    def below(self, target: str, key: str) -> frozenset[str]:
        """The targets that may stand below a key of a target."""
        anywhere = self.loose | self.borrowed if target in self.options | self.loose else frozenset()
        return self.parts.get((target, key), frozenset()) | anywhere


@cache
def groups() -> list[str]:
    return sorted(folder.name for folder in CONF.iterdir() if folder.is_dir())


def check_group(group: str, node: object) -> None:
    """Raises UsageError for a node of this group that would build what its files do not name."""
    _check(node, group, named(group).options)


def check_free(key: str, value: object) -> None:
    """Raises UsageError for a value of a key that is no group and builds something."""
    _check(value, key, frozenset())


def check_node(node: object) -> None:
    """Raises UsageError for a node of no known group that would build what no file of conf/ names."""
    _check(node, "", _all())


def _check(node: object, place: str, allowed: frozenset[str]) -> None:
    if isinstance(node, list):
        for value in node:
            _check(value, place, allowed)
    elif isinstance(node, str) and "${" in node:
        # Hydra resolves once more when it instantiates: what appears then has been checked by nobody
        raise UsageError(f"{node}: refused, an interpolation within a resolved config")
    elif isinstance(node, dict):
        target = node.get("_target_")
        if "_target_" in node and not (isinstance(target, str) and target in allowed):
            yours = f"a class of yours needs the folder with your {place or '<group>'}/<name>.yaml"
            hint = "" if str(target).startswith(("asr_", "torch")) else f"; {yours}: -cd, or ASR_ABLATIONS_CONF"
            raise UsageError(f"_target_={target}: refused, no file in conf/{place} names it there{hint}")
        for key, value in node.items():
            if str(key).startswith("_") and key not in MARKS:
                raise UsageError(f"{key}={value}: refused, no option in conf/ has this key")
            _check(value, place, allowed if target is None else _parts(target, str(key)))


@cache
def named(group: str) -> GroupTargets:
    """Read from the files of conf/<group>, at most once."""
    nodes = options_of(group)
    options = frozenset(str(node["_target_"]) for node in nodes)
    parts: dict[tuple[str, str], frozenset[str]] = {}
    for node in (inner for option in nodes for inner in _built(option)):
        for key, value in node.items():
            below = frozenset(str(inner["_target_"]) for inner in _built(value))
            if isinstance(value, str) and (match := GROUP.fullmatch(value)) and match[1] in groups():
                below |= named(match[1]).options
            if below & options:  # a chain of options: any of them may be in it
                below |= options
            place = (str(node["_target_"]), str(key))
            parts[place] = parts.get(place, frozenset()) | below
    loose = {
        str(inner["_target_"]) for file in sorted((CONF / group).glob("*/**/*.yaml")) for inner in _built(_read(file))
    }
    others = {match[1] for entry in _entries(group) if (match := BORROWED.match(entry))}
    borrowed = (options if other == group else named(other).options for other in others)
    return GroupTargets(options, parts, frozenset(loose), frozenset().union(*borrowed))


def _entries(group: str) -> Iterator[str]:
    """The entries with an option in the defaults lists of a group's files, those of its folders too."""
    for file in sorted((CONF / group).rglob("*.yaml")):
        entries = _read(file).get("defaults")
        if isinstance(entries, list):
            yield from (str(key) for entry in entries if isinstance(entry, dict) for key in entry)


@cache
def options_of(group: str) -> list[dict[str, object]]:
    """The nodes of a group's files, those that set keys of the whole config too."""
    return list(options_by_name(group).values())


@cache
def options_by_name(group: str) -> dict[str, dict[str, object]]:
    """The same nodes by the names of their files."""
    contents = contents_by_name(group)
    nodes = {name: content if "_target_" in content else content.get(group) for name, content in contents.items()}
    return {name: node for name, node in nodes.items() if isinstance(node, dict) and "_target_" in node}


@cache
def contents_by_name(group: str) -> dict[str, dict[str, object]]:
    """The contents of a group's files, by their names: a node, or keys of the whole config with the node among them."""
    return {file.stem: _read(file) for folder in (CONF, *own_folders()) for file in _yamls(folder / group)}


@cache
def null_option(group: str) -> str | None:
    """The name of the option that sets the group to null, or None if the group has no such option."""
    contents = contents_by_name(group).items()
    return next((name for name, content in contents if group in content and content[group] is None), None)


def _yamls(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.yaml"))


def _read(file: Path) -> dict[str, object]:
    return yaml.load(file.read_text(encoding="utf-8"), _Loader) or {}


def _built(node: object) -> Iterator[dict[str, object]]:
    """Every node at any depth that builds something."""
    if isinstance(node, dict) and "_target_" in node:
        yield node
    if isinstance(node, (dict, list)):
        for value in node.values() if isinstance(node, dict) else node:
            yield from _built(value)


@cache
def _parts(target: str, key: str) -> frozenset[str]:
    """The targets below a key of a target, wherever conf/ names the target."""
    return frozenset().union(*(named(group).below(target, key) for group in groups()))


@cache
def _all() -> frozenset[str]:
    known = [named(group) for group in groups()]
    parts = (below for one in known for below in one.parts.values())
    return frozenset().union(*(one.options | one.loose for one in known), *parts)


_Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's where it is there: ten times as fast, and this runs before every run."""

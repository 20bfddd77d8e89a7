"""The keys that may be added to a config: one that nothing reads would be a choice without effect."""

import difflib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import yaml

from asr_ablations.config.targets import groups, options_of
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.paths import CONF

TRAINING = "config"
"""The file of conf/ that a training begins with: the nearest key is likely one of its."""
OF_HYDRA = ("defaults", "hydra")
FREE = ("ablation", "hydra")
"""Keys below which others have their own check."""
COULD_NOT = re.compile(r"Could not override '([^'@]+)'")
"""How Hydra begins to refuse a key; it goes on with the advice to add it."""


def check_added(overrides: object, config: Mapping[str, Any]) -> None:
    """Raises UsageError, with the nearest known keys, for a key that `+key=value` added and that nothing reads.

    Hydra itself refuses a key that is new without the +. Keys below a group are for the class that the group builds: it
    refuses those that it does not take. config: what they were added to.
    """
    words = [word for word in overrides if isinstance(word, str)] if isinstance(overrides, list) else []
    for key in (word.lstrip("+").partition("=")[0] for word in words if word.startswith("+")):
        first, _, below = key.partition(".")
        plain, groups = _known_anywhere()
        if first in (*groups, *FREE) or first not in config:  # an option of a group beside the sweep file is no key
            continue
        if first not in plain or (below and isinstance(plain[first], dict) and below not in plain[first]):
            raise unknown(key, config)


@cache
def _known_anywhere() -> tuple[dict[str, Any], frozenset[str]]:
    """Plain keys and groups of all files that a command begins with."""
    plain: dict[str, Any] = {}
    groups: frozenset[str] = frozenset()
    for file in sorted(CONF.glob("*.yaml")):
        own, more = known(file.stem)
        plain, groups = {**own, **plain}, groups | more
    return plain, groups


@cache
def known(primary: str) -> tuple[dict[str, Any], frozenset[str]]:
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
    """What to say of a key that Hydra refuses, instead of its advice to add it, by what Hydra says; None where it says
    something else.
    """
    match = COULD_NOT.match(message)
    return None if match is None else str(unknown(match[1], _everything()))


@cache
def _everything() -> dict[str, Any]:
    """Plain keys of all commands, and every group with the keys of all its options."""
    plain, _ = _known_anywhere()
    first = sorted(groups(), key=lambda group: group not in known(TRAINING)[1])
    nodes = {group: options_of(group) for group in first}
    return {**plain, **{group: {key: None for node in listed for key in node} for group, listed in nodes.items()}}


def unknown(key: str, config: Mapping[str, Any]) -> UsageError:
    """The last part of a key may be right in another place: lr is optimizer.lr. A group that no default chooses from is
    added.
    """
    if (CONF / key).is_dir():
        options = ", ".join(f"+{key}={file.stem}" for file in sorted((CONF / key).glob("*.yaml")))
        return UsageError(f"{key}: nothing is chosen from it by default; expected {options}")
    dotted = [name for name in _dotted(config) if name != key and not name.startswith(f"{key}.")]
    last = key.rpartition(".")[2]
    same = [name for name in dotted if name.rpartition(".")[2] == last]
    near = same or difflib.get_close_matches(key, dotted, n=3)
    hint = f"nearest: {', '.join(near)}" if near else "docs/options.md lists them all"
    return UsageError(f"{key}: there is no such key; {hint}")


def _dotted(config: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in config.items():
        yield f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{prefix}{key}.")

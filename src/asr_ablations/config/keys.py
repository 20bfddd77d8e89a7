"""The keys that a config may have: one that nothing reads would be a choice without effect."""

import difflib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf

from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.paths import CONF

OF_HYDRA = ("defaults", "hydra")


def check_keys(cfg: DictConfig, primary: str) -> None:
    """Raises UsageError, with the nearest known key, for a key that the file `primary` of conf/ does not have.

    Keys below a group are for the class that the group builds: it refuses those that it does not take.
    """
    config: Any = OmegaConf.to_container(cfg)
    plain, groups = known(primary)
    for key, value in config.items():
        if key not in plain and key not in groups:
            raise _unknown(str(key), config)
        if isinstance(plain.get(key), dict) and isinstance(value, Mapping):
            for child in value:
                if child not in plain[key]:
                    raise _unknown(f"{key}.{child}", config)


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


def _unknown(key: str, config: Mapping[str, Any]) -> UsageError:
    """The last part of a key may be right in another place: lr is optimizer.lr."""
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

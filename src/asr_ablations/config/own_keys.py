"""The keys that a sweep file brings along: conf/ knows each of them, or something refers to it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hydra._internal.config_repository import IConfigRepository
from hydra.core.default_element import ResultDefault
from omegaconf import DictConfig, OmegaConf

from asr_ablations.config.keys import FREE, OF_HYDRA, known, unknown
from asr_ablations.config.targets import groups
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.paths import CONF

REFERENCE = re.compile(r"\$\{([\w.]+)\}")


def refuse_unread(defaults: Sequence[ResultDefault], repository: IConfigRepository, merged: DictConfig) -> None:
    """Raises UsageError, with the nearest known keys, for a key of the file that a command begins with, where that file
    builds on another one, none of the files merged with it has the key, and nothing refers to it.
    """
    own: dict[str, Any] = {}
    inherited: dict[str, Any] = dict.fromkeys((*OF_HYDRA, *FREE))
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


def _other_options(defaults: Sequence[ResultDefault], repository: IConfigRepository) -> Iterator[dict[str, Any]]:
    """What an arm may choose in the groups that the file itself chooses from: an option may refer to a key of it."""
    primary = next((default.config_path for default in defaults if default.primary), None)
    for default in defaults:
        group = str(default.config_path).rpartition("/")[0]
        if group and default.parent == primary:
            for name in repository.get_group_options(group):
                yield _content(f"{group}/{name}", repository)


def _content(path: str | None, repository: IConfigRepository) -> dict[str, Any]:
    loaded = None if path is None else repository.load_config(path)
    content = None if loaded is None else OmegaConf.to_container(loaded.config)
    return {str(key): value for key, value in content.items()} if isinstance(content, dict) else {}


def _beyond(own: Mapping[str, Any], inherited: Mapping[str, Any]) -> Iterator[str]:
    """The keys that are new, and new ones below plain keys that have others below them."""
    for key, value in own.items():
        if key not in inherited:
            yield key
        elif isinstance(value, dict) and isinstance(inherited[key], dict) and "_target_" not in inherited[key]:
            yield from (f"{key}.{name}" for name in value if name not in inherited[key])


def _references(node: object) -> Iterator[str]:
    """The keys that values are interpolated from."""
    if isinstance(node, (dict, list)):
        for value in node.values() if isinstance(node, dict) else node:
            yield from _references(value)
    elif isinstance(node, str):
        yield from REFERENCE.findall(node)

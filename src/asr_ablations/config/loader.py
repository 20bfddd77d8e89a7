"""Hydra's composition, with every file of conf/ read once per command and every choice of files merged once.

Hydra 1.3 reads and merges all files anew for every arm of a sweep, twice, and copies everything that its plugins have
stored for each look at a folder, of which --help takes two hundred. What is composed is the same, but for one thing: a
file that is edited while a command runs no longer reaches its later arms.
"""

import copy
import re
from dataclasses import replace

import hydra._internal.config_loader_impl as hydra_loader
import hydra._internal.hydra as hydra_core
import yaml
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository, ConfigRepository, IConfigRepository
from hydra._internal.defaults_list import DefaultsList, Overrides, create_defaults_list
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.default_element import ResultDefault
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, QuotedString, ValueType
from hydra.errors import HydraException
from hydra.plugins.config_source import ConfigResult
from omegaconf import DictConfig

from asr_ablations.config.own_keys import refuse_unread, refuse_unread_groups
from asr_ablations.tools.errors import UsageError, choices

SEVERAL = re.compile(r"logger=\[([\w\s,]*)\]")


class Repository(CachingConfigRepository):
    """The files of a search path and what plugins have stored, each read once. What it returns must not be changed.

    defaults: the lists of files, by the overrides that choose files.
    """

    def __init__(self, search_path: ConfigSearchPath) -> None:
        self.delegate = ConfigRepository(search_path)  # Hydra's own copies one, with all that plugins have stored
        self.cache: dict[str, ConfigResult | None] = {}
        self.defaults: dict[tuple[object, ...], DefaultsList] = {}
        self._groups: dict[str, bool] = {}

    def load_config(self, config_path: str) -> ConfigResult | None:
        """Raises UsageError with the name of a file that is no YAML: with -cd and -cn it is the user's own."""
        try:
            loaded: ConfigResult | None = super().load_config(config_path)
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise UsageError(f"{config_path}.yaml: {' '.join(str(error).split())}") from error
        return loaded

    def group_exists(self, config_path: str) -> bool:
        if config_path not in self._groups:
            self._groups[config_path] = super().group_exists(config_path)
        return self._groups[config_path]


class Loader(ConfigLoaderImpl):
    """Hydra's loader for one command."""

    def __init__(self, config_search_path: ConfigSearchPath) -> None:
        super().__init__(config_search_path)
        self._repositories: dict[tuple[str | None, str], Repository] = {}
        self._merged: dict[tuple[int, str], DictConfig] = {}

    def _parse_overrides_and_create_caching_repo(
        self, config_name: str | None, overrides: list[str]
    ) -> tuple[list[Override], CachingConfigRepository]:
        parsed = OverridesParser.create().parse_overrides(overrides=several(overrides))
        paths = [str(override.value()) for override in parsed if override.get_key_element() == "hydra.searchpath"]
        key = config_name, str(paths[:1])  # of several, Hydra takes the first
        if key not in self._repositories:
            repository = Repository(self.config_search_path)
            self._process_config_searchpath(config_name, parsed, repository)
            self._repositories[key] = repository
        for override in parsed:
            _refuse(override, self._repositories[key])
        return parsed, self._repositories[key]

    def _compose_config_from_defaults_list(self, defaults: list[ResultDefault], repo: IConfigRepository) -> DictConfig:
        key = id(repo), repr(defaults)  # values of the command line come later
        if key not in self._merged:
            merged = super()._compose_config_from_defaults_list(defaults, repo)
            refuse_unread(defaults, repo, merged)
            refuse_unread_groups(defaults)
            self._merged[key] = merged
        return copy.deepcopy(self._merged[key])

    def _load_single_config(self, default: ResultDefault, repo: IConfigRepository) -> ConfigResult:
        loaded = super()._load_single_config(default, repo)
        if default.config_path is not None and loaded is repo.load_config(default.config_path):
            loaded = copy.copy(loaded)  # it is merged without a copy, and what follows would change it
            loaded.config = copy.deepcopy(loaded.config)
        return loaded


def several(overrides: list[str]) -> list[str]:
    """With logger=[a,b] as Hydra can compose it: each below a key of its own. Hydra would merge the two files."""
    words: list[str] = []
    for word in overrides:
        match = SEVERAL.fullmatch(word)
        names = [] if match is None else [name.strip() for name in match[1].split(",") if name.strip()]
        beside = [f"+logger@logger.loggers.{name}={name}" for name in dict.fromkeys(names)]
        words += ["logger=several", *beside] if match is not None else [word]
    return words


def _refuse(override: Override, repository: Repository) -> None:
    """Raises UsageError for =value; for a group whose value names no option: null and numbers are a traceback of
    Hydra's, and of a list it merges the options into one that nobody has described; and for what takes a key away: a
    class would go on with a default of its own, which no config shows.
    """
    key = override.key_or_group
    if not key:
        raise UsageError(f"{override.input_line}: expected key=value")
    options = repository.get_group_options(key) if repository.group_exists(key) else []
    if override.is_delete():
        if not key.startswith("hydra"):
            expected = ", ".join(f"{key}={name}" for name in options) or f"{key}=<value>"
            raise UsageError(f"~{key}: nothing can be taken away; expected {expected}")
        return
    if options and override.value_type is ValueType.ELEMENT:
        value = override.value()
        if not isinstance(value, (str, QuotedString)):
            raise choices(key, "null" if value is None else value, options)


def list_files(
    repo: IConfigRepository,
    config_name: str | None,
    overrides_list: list[Override],
    prepend_hydra: bool,
    skip_missing: bool,
) -> DefaultsList:
    """Hydra's `create_defaults_list`, once for all command lines that choose the same files. A list from which nothing
    is missing is the same whether that is forgiven, as where Hydra only looks for its mode, or not.
    """
    if not isinstance(repo, Repository):
        return create_defaults_list(repo, config_name, overrides_list, prepend_hydra, skip_missing)
    values = Overrides(repo, overrides_list).config_overrides
    groups = [override for override in overrides_list if repo.group_exists(override.key_or_group)]
    key = config_name, prepend_hydra, *(override.input_line for override in groups)
    if key not in repo.defaults:
        try:
            repo.defaults[key] = create_defaults_list(repo, config_name, groups, prepend_hydra, False)
        except HydraException:
            if not skip_missing:
                raise
            key = *key, "without what is missing"
            repo.defaults[key] = create_defaults_list(repo, config_name, groups, prepend_hydra, True)
    return replace(repo.defaults[key], config_overrides=values)


def use_loader() -> None:
    """From now on Hydra composes with `Loader`. Hydra has no plugin for it: it names the two in its modules."""
    hydra_core.ConfigLoaderImpl = Loader  # type: ignore[misc]
    hydra_loader.create_defaults_list = list_files

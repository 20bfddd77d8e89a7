"""Hydra's composition without a command line."""

import copy
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import hydra._internal.config_loader_impl as hydra_loader
import hydra._internal.hydra as hydra_core
import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository, ConfigRepository, IConfigRepository
from hydra._internal.defaults_list import DefaultsList, Overrides, create_defaults_list
from hydra.conf import HydraConf
from hydra.core.config_search_path import ConfigSearchPath, SearchPathElement
from hydra.core.default_element import ResultDefault
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, QuotedString, ValueType
from hydra.core.singleton import Singleton
from hydra.errors import HydraException, MissingConfigException
from hydra.plugins.config_source import ConfigResult
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from asr_ablations.config.build import one_line
from asr_ablations.config.keys import refuse_unread, refuse_unread_groups
from asr_ablations.config.resolvers import look_up_in
from asr_ablations.config.variants import own_folders
from asr_ablations.runs.identity import short_name
from asr_ablations.runs.layout import ALONE
from asr_verdicts.config import flatten
from asr_verdicts.errors import UsageError, choices

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
        path = config_search_path.get_path()
        known = [_plain(str(element.path)) for element in path]
        for folder in (str(folder) for folder in own_folders() if str(folder) not in known):
            path.insert(len(path) - 1, SearchPathElement("variants", f"file://{folder}"))  # Hydra's own must be last
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
            _refuse_file(config_name, repository)
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


def _refuse_file(config_name: str | None, repository: Repository) -> None:
    """Raises UsageError for a file with _self_ before the file that it builds on, since its own values would be lost;
    and for one whose logging calls a function.
    """
    loaded = repository.load_config(config_name) if config_name else None
    if loaded is None:
        return
    names = [getattr(entry, "path", None) for entry in loaded.defaults_list or []]
    if "_self_" in names and "/config" in names[names.index("_self_") :]:
        raise UsageError(
            f"{config_name}.yaml: _self_ stands before /config, which sets its values anew; expected it last"
        )
    for key in ("job_logging", "hydra_logging"):
        node = OmegaConf.select(loaded.config, f"hydra.{key}")
        if isinstance(node, DictConfig) and any(
            name.endswith("()") for name in flatten({str(k): v for k, v in node.items()})
        ):
            raise UsageError(f"{config_name}.yaml: hydra.{key}: refused, its () would call a function")


def _plain(path: str) -> str:
    return str(Path(path.removeprefix("file://")).resolve())


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


def compose(
    conf: Path, overrides: Sequence[str], *, name: str, folder: Path | None, with_hydra: bool = False
) -> DictConfig:
    """The config that the overrides make of the file `name` of conf/, or of `folder` (-cd), interpolations unresolved.

    with_hydra: with Hydra's own part. Raises UsageError for what Hydra refuses.
    """
    if folder is not None and not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder; the config was composed from its {name}.yaml")
    look_up_in(conf)
    use_loader()
    search = [] if folder is None else [f"hydra.searchpath=['file://{conf}']"]
    try:
        with initialize_config_dir(version_base="1.3", config_dir=str((folder or conf).resolve())):
            return hydra_compose(name, overrides=[*search, *overrides], return_hydra_config=with_hydra)
    except MissingConfigException as error:
        group, _, value = str(error.missing_cfg_file).rpartition("/")
        expected = f"expected {', '.join(error.options)}" if error.options else "there is no such file"
        raise UsageError(f"{group or folder or conf}={value}: {expected}") from error
    except (HydraException, OmegaConfBaseException, yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(one_line(error)) from error


def compose_arm(context: HydraContext, config: DictConfig, overrides: Sequence[str], number: int) -> DictConfig:
    """The resolved config of one arm under its sweep's name, without Hydra's own part, for launchers."""
    state = Singleton.get_state()
    try:
        cfg = context.config_loader.load_sweep_config(config, list(overrides))
        with open_dict(cfg):
            cfg.hydra.job.num = number
            HydraConfig.instance().set_config(cfg)
            if cfg.get("sweep", "") is None:
                cfg.sweep = sweep_name(config.hydra)
            del cfg["hydra"]
        OmegaConf.resolve(cfg)
    finally:
        Singleton.set_state(state)
    return cfg


def sweep_name(hydra: HydraConf | DictConfig | None) -> str:
    """The name of a sweep that was given none: its file's, or what its command line varies; ALONE for one run."""
    if hydra is None or hydra.mode != RunMode.MULTIRUN:
        return ALONE
    return str(hydra.job.config_name) if hydra.job.config_name != "config" else short_name(hydra.overrides.task)

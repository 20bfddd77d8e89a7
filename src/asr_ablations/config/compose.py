"""Compose configs with Hydra, resolve ${…} in them, and refuse overrides and keys that a command does not read."""

import copy
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import hydra._internal.config_loader_impl as hydra_loader
import hydra._internal.defaults_list as hydra_defaults
import hydra._internal.hydra as hydra_core
import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository, ConfigRepository, IConfigRepository
from hydra._internal.defaults_list import DefaultsList, Overrides, create_defaults_list
from hydra.conf import HydraConf
from hydra.core.config_search_path import ConfigSearchPath, SearchPathElement
from hydra.core.default_element import InputDefault, ResultDefault
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, QuotedString, ValueType
from hydra.errors import ConfigCompositionException, HydraException
from hydra.plugins.config_source import ConfigResult
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from asr_ablations.config.build import one_line
from asr_ablations.config.keys import expect_keys, refuse_key, refuse_unread
from asr_ablations.config.targets import list_user_folders
from asr_ablations.runs.identity import name_sweep, sha256_of, sha256_of_weights
from asr_ablations.runs.layout import ALONE
from asr_ablations.tools.files import CONF
from asr_verdicts.config import flatten
from asr_verdicts.errors import UsageError, choices

LOGGER_LIST = re.compile(r"logger=\[([\w\s,]*)\]")
LISTS = {"conditions": "condition", "callbacks": "callbacks"}
"""Keys that list options, each with the options' group, below whose key the options' own keys are placed."""
LISTED = re.compile(rf"({'|'.join(LISTS)})=(?:\[([\w\s,]*)\]|(\w+))")
MAP_CHOICES = hydra_defaults._create_interpolation_map
SYNONYMS = {"16-mixed": 16, "bf16-mixed": "bf16", "32-true": 32}
"""Lightning's names of precisions, each with its name here."""
REFUSED = re.compile(r"Could not override '([^'@]+)'|Error merging override (\w+)=(.*)")
"""Matches two of Hydra's error messages: for an unknown key, and for a value where keys are expected."""


def look_up_in(conf: Path) -> None:
    """Register the functions that configs call as ${…}. ${characters_of:<language>} reads an alphabet in `conf`.

    A process normally uses only one folder of configs, but two if it reproduces a run with the recorded code.
    """
    alphabets.cache_clear()
    # launchers pickle this function together with their jobs' configs, so it must refer only to the folder
    OmegaConf.register_new_resolver("characters_of", partial(characters_of, conf), replace=True)
    OmegaConf.register_new_resolver("sha256_of_weights", sha256_of_weights, replace=True)
    OmegaConf.register_new_resolver("sha256_of", sha256_of, replace=True)


def characters_of(conf: Path, language: object) -> str:
    """Return the characters of a language's alphabet. Raise UsageError if no file in conf/alphabet lists them."""
    spelled = alphabets(conf)
    if str(language) not in spelled:
        raise choices("data.language", language, [*spelled, "or any language with alphabet=derived"])
    return spelled[str(language)]


@cache
def alphabets(conf: Path) -> dict[str, str]:
    """Return the characters that each file in conf/alphabet lists, by language."""
    nodes = {file.stem: yaml.safe_load(file.read_text("utf-8")) for file in sorted((conf / "alphabet").glob("*.yaml"))}
    characters = {language: str(node.get("characters", "")) for language, node in nodes.items()}
    return {language: spelled for language, spelled in characters.items() if spelled and "${" not in spelled}


class Repository(CachingConfigRepository):
    """Reads the config files on a search path, and config nodes that plugins store, but each of them only once.

    primary: file in conf/ that the command's or the user's file extends. defaults: Hydra's defaults lists by overrides.
    """

    primary: str | None = None

    def __init__(self, search_path: ConfigSearchPath) -> None:
        self.delegate = ConfigRepository(search_path)  # the base class would copy it with all its nodes
        self.cache: dict[str, ConfigResult | None] = {}
        self.defaults: dict[tuple[object, ...], DefaultsList] = {}

    def load_config(self, config_path: str) -> ConfigResult | None:
        """Return a config file's contents, the same object each time. Raise UsageError if the file is not YAML."""
        try:
            return super().load_config(config_path)
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise UsageError(f"{config_path}.yaml: {' '.join(str(error).split())}") from error

    def folders(self) -> list[Path]:
        return [Path(source.path).resolve() for source in self.get_sources() if source.scheme() == "file"]

    def find_primary(self, name: str) -> str | None:
        loaded = None if (CONF / f"{name}.yaml").is_file() else self.load_config(name)
        if loaded is None:
            return name
        entries = [str(getattr(entry, "path", None) or "_self_").strip("/") for entry in loaded.defaults_list or []]
        files = [entry for entry in entries if entry != "_self_" and "/" not in entry]
        return next((primary for file in files if (primary := self.find_primary(file))), None)


class Loader(ConfigLoaderImpl):
    """Replaces Hydra's config loader. It reads each file only once, and refuses keys that the command does not read."""

    def __init__(self, config_search_path: ConfigSearchPath) -> None:
        path = config_search_path.get_path()
        folders = [Path(str(element.path).removeprefix("file://")).resolve() for element in path]
        for folder in (folder for folder in list_user_folders() if folder.resolve() not in folders):
            path.insert(len(path) - 1, SearchPathElement("variants", f"file://{folder}"))  # Hydra's folder stays last
        super().__init__(config_search_path)
        self._repositories: dict[tuple[str | None, str], Repository] = {}
        self._merged: dict[tuple[int, str], DictConfig] = {}

    def load_configuration(self, *words: Any, **options: Any) -> DictConfig:
        """Compose a config. For a key that the command does not read, raise a UsageError that lists similar keys."""
        try:
            cfg: DictConfig = super().load_configuration(*words, **options)
        except ConfigCompositionException as error:
            primary = self._repository.primary
            if (match := REFUSED.match(str(error))) is None or primary is None:
                raise
            raise refuse_key(match[1], primary) if match[1] else expect_keys(match[2], match[3]) from error
        if (precision := cfg.get("precision")) in SYNONYMS:
            cfg.precision = SYNONYMS[precision]
        if self._repository.primary is not None:
            refuse_unread(cfg, self._repository.primary, self._defaults, self._repository.folders())
        return cfg

    def _parse_overrides_and_create_caching_repo(
        self, config_name: str | None, overrides: list[str]
    ) -> tuple[list[Override], CachingConfigRepository]:
        parsed = OverridesParser.create().parse_overrides(overrides=choose_listed(separate_loggers(overrides)))
        paths = [str(override.value()) for override in parsed if override.get_key_element() == "hydra.searchpath"]
        key = config_name, str(paths[:1])  # Hydra ignores all but the first
        if key not in self._repositories:
            repository = Repository(self.config_search_path)
            self._process_config_searchpath(config_name, parsed, repository)
            _refuse_file(config_name, repository)
            if config_name and CONF.resolve() in repository.folders():
                repository.primary = repository.find_primary(config_name)
            self._repositories[key] = repository
        self._repository = self._repositories[key]
        for override in parsed:
            _refuse(override, self._repository)
        return parsed, self._repository

    @staticmethod
    def _embed_result_config(loaded: ConfigResult, package: str | None) -> ConfigResult:
        """Place a file's contents in their package. Return a copy, because Hydra merges the next file into it."""
        placed = ConfigLoaderImpl._embed_result_config(loaded, package)
        return copy.deepcopy(placed) if placed is loaded else placed

    def _compose_config_from_defaults_list(self, defaults: list[ResultDefault], repo: IConfigRepository) -> DictConfig:
        self._defaults = defaults
        key = id(repo), repr(defaults)  # Hydra applies values from the command line later
        if key not in self._merged:
            self._merged[key] = super()._compose_config_from_defaults_list(defaults, repo)
        return copy.deepcopy(self._merged[key])


def _refuse_file(config_name: str | None, repository: Repository) -> None:
    """Raise UsageError if a file puts /config after _self_, or if its logging section would call a function."""
    if (loaded := repository.load_config(config_name) if config_name else None) is None:
        return
    names = [getattr(entry, "path", None) for entry in loaded.defaults_list or []]
    if "_self_" in names and "/config" in names[names.index("_self_") :]:
        raise UsageError(f"{config_name}.yaml: _self_ before /config lets /config override this file; expected it last")
    for key in flatten(OmegaConf.to_container(loaded.config)):  # type: ignore[arg-type]
        if key.startswith(("hydra.job_logging.", "hydra.hydra_logging.")) and key.endswith("()"):
            raise UsageError(f"{config_name}.yaml: {key}: refused, because its () would call a function")


def separate_loggers(overrides: list[str]) -> list[str]:
    """Replace logger=[a,b] with overrides that have a key per logger, because Hydra would merge their files."""
    words: list[str] = []
    for word in overrides:
        match = LOGGER_LIST.fullmatch(word)
        names = dict.fromkeys(filter(None, map(str.strip, match[1].split(",")))) if match else ()
        words += ["logger=several", *(f"+logger@logger.loggers.{name}={name}" for name in names)] if match else [word]
    return words


def choose_listed(overrides: list[str]) -> list[str]:
    """For each option in conditions=[a,b] or callbacks=[a,b], add an override that loads its file, if none does yet."""
    words: list[str] = []
    for word in overrides:
        match = LISTED.fullmatch(word)
        if match is None or match[1] not in LISTS.values():
            words.append(word)
        if match is None:
            continue
        group = LISTS[match[1]]
        for name in dict.fromkeys(filter(None, map(str.strip, (match[2] or match[3] or "").split(",")))):
            place = f"{group}@{group}.{name}="
            if name not in ("null", "none") and not any(other.lstrip("+").startswith(place) for other in overrides):
                words.append(f"+{place}{name}")
    return words


def _refuse(override: Override, repository: Repository) -> None:
    """Raise UsageError for an override without a key, for ~key, and for a group set to a number, null or a list.

    After ~key, a class would use a default value that the config does not show. If a group is set to a number or null,
    Hydra prints a traceback. If it is set to a list, Hydra merges the files.
    """
    key = override.key_or_group
    if not key:
        raise UsageError(f"{override.input_line}: expected key=value")
    if override.is_delete() and not key.startswith("hydra"):
        raise UsageError(f"~{key}: keys cannot be removed; expected {key}=<value>")
    if override.value_type is ValueType.ELEMENT and (options := repository.get_group_options(key)):
        value = override.value()
        if not isinstance(value, (str, QuotedString)):
            raise choices(key, "null" if value is None else value, options)


def list_files(repo: IConfigRepository, overrides_list: list[Override], **options: Any) -> DefaultsList:
    """Cache Hydra's defaults list for arms with the same files. Making it takes half the time of composing an arm."""
    if not isinstance(repo, Repository):
        return create_defaults_list(repo, overrides_list=overrides_list, **options)
    groups = [override for override in overrides_list if repo.group_exists(override.key_or_group)]
    key = *options.values(), *(override.input_line for override in groups)
    if key not in repo.defaults:
        repo.defaults[key] = create_defaults_list(repo, overrides_list=groups, **options)
    return replace(repo.defaults[key], config_overrides=Overrides(repo, overrides_list).config_overrides)


def map_if_read(overrides: Overrides, defaults_list: list[InputDefault], self_added: bool) -> DictConfig:
    """Map the choices that a ${…} in a defaults list can read. Hydra does it for every file, at 40 % of its time."""
    read = any(entry.is_interpolation() for entry in defaults_list)
    return MAP_CHOICES(overrides, defaults_list, self_added) if read else OmegaConf.create()


def use_loader() -> None:
    """Make Hydra use `Loader` from now on. Hydra has no plugin for this, so three names in its modules are replaced."""
    hydra_core.ConfigLoaderImpl = Loader  # type: ignore[misc]
    hydra_loader.create_defaults_list = list_files  # type: ignore[assignment]
    hydra_defaults._create_interpolation_map = map_if_read


def compose(
    conf: Path, overrides: Sequence[str], *, name: str, folder: Path | None, with_hydra: bool = False
) -> DictConfig:
    """Compose the file `name` in `conf`, or in `folder` (as with -cd). with_hydra: whether to keep Hydra's own keys."""
    if folder is not None and not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder; the config was composed from its {name}.yaml")
    look_up_in(conf)
    use_loader()
    search = [] if folder is None else [f"hydra.searchpath=['file://{conf}']"]
    try:
        with initialize_config_dir(version_base="1.3", config_dir=str((folder or conf).resolve())):
            return hydra_compose(name, overrides=[*search, *overrides], return_hydra_config=with_hydra)
    except (HydraException, OmegaConfBaseException, yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(one_line(error)) from error


def compose_arm(context: HydraContext, config: DictConfig, overrides: Sequence[str], number: int) -> DictConfig:
    """Compose and resolve one arm of a sweep for a launcher, without Hydra's own keys."""
    cfg = context.config_loader.load_sweep_config(config, list(overrides))
    hydra = HydraConfig.instance()
    outer = hydra.cfg
    try:
        with open_dict(cfg):
            cfg.hydra.job.num = number
            hydra.set_config(cfg)  # to resolve values such as ${hydra:job.num}
            if cfg.get("sweep", "") is None:
                cfg.sweep = sweep_name(config.hydra)
            del cfg["hydra"]
        OmegaConf.resolve(cfg)
    finally:
        hydra.cfg = outer
    return cfg


def sweep_name(hydra: HydraConf | DictConfig | None) -> str:
    """Return a sweep's name: the name of its config file, or else its overrides; ALONE for a single run."""
    if hydra is None or hydra.mode != RunMode.MULTIRUN:
        return ALONE
    if hydra.job.config_name != "config":
        return str(hydra.job.config_name)
    words = list(hydra.overrides.task)
    parsed = OverridesParser.create().parse_overrides(words)
    return name_sweep(
        words, [word for word, override in zip(words, parsed, strict=True) if override.is_sweep_override()]
    )

"""From a resolved config to objects."""

import logging
from typing import Any

from omegaconf import DictConfig, ListConfig, Node, OmegaConf, flag_override
from omegaconf.errors import OmegaConfBaseException

from asr_ablations.config.component_arguments import by_key, check_kinds
from asr_ablations.config.keys import check_added, check_shapes, not_keys, refused_by_hydra
from asr_ablations.config.targets import SOURCE_HASH, check_free, check_group, check_node, groups, null_option
from asr_ablations.config.variants import source_hash
from asr_ablations.tools.errors import is_lack_of_memory, missing
from asr_ablations.tools.files import format_override, quote_word
from asr_ablations.tools.streams import harmless_line
from asr_verdicts.config import SHA256
from asr_verdicts.errors import UsageError, choices


def check_targets(cfg: DictConfig) -> None:
    """Resolve any config and check what it would build. Raises UsageError for what is missing or not trusted."""
    try:
        _copy_words(cfg)
        OmegaConf.resolve(cfg)
    except OmegaConfBaseException as error:
        raise UsageError(one_line(error)) from error
    content = OmegaConf.to_container(cfg)
    assert isinstance(content, dict)
    # what the user typed, with interpolations; nothing is built from it
    check_added(content.pop("overrides", None), {str(key): value for key, value in content.items()})
    check_shapes({str(key): value for key, value in content.items()})
    for key, value in content.items():
        if str(key) not in groups():
            check_free(str(key), value)
            continue
        if option := null_option(str(key)):
            if value is None:
                continue
            if isinstance(value, dict) and "_target_" not in value:  # +penalty.scale=1 adds keys to null
                added = ", ".join(f"{key!s}.{name!s}" for name in value)
                raise UsageError(f"{added}: {key!s}={option} has no such key")
        if not isinstance(value, dict):
            raise choices(str(key), value, f"an option of conf/{key!s}")
        check_group(str(key), value)
        check_kinds(str(key), value)
    _record_sources(cfg)


def _record_sources(node: object) -> None:
    """Give every node with a class of the user's own the hash of its source, which is a part of what a run is. Raises
    UsageError where the node was composed when the source was another one.
    """
    if not isinstance(node, (DictConfig, ListConfig)) or node._is_none() or node._is_missing():
        return
    for key in list(node) if isinstance(node, DictConfig) else range(len(node)):
        _record_sources(node._get_node(key))  # a node as it is: one that has to be typed yet is an error to read
    if not isinstance(node, DictConfig) or "_target_" not in node:
        return
    target = node._get_node("_target_")
    if (actual := source_hash(str(target))) is None:
        return
    if node.get(SOURCE_HASH, actual) != actual:
        raise UsageError(
            f"_target_={target}: its source has changed since this config was composed; what was trained with "
            f"the earlier one needs that one (SHA-256 {node[SOURCE_HASH]})"
        )
    with flag_override(node, ["struct", "readonly"], False):
        node[SOURCE_HASH] = actual


def _copy_words(cfg: DictConfig) -> None:
    """Give the config the words of the command line that it refers to: those are Hydra's, and one with an interpolation
    could not be resolved there.
    """
    node = cfg._get_node("overrides")
    if isinstance(node, Node) and node._is_interpolation():
        cfg.overrides = OmegaConf.to_container(node._dereference_node(), resolve=False)


def one_line(error: Exception) -> str:
    """The message of an error of composing or resolving, or of the user's mistake behind it."""
    if isinstance(typed := getattr(error, "override", None), str):  # what Hydra's grammar does not take
        text = quote_word(format_override(*typed.split("=", 1)) if "=" in typed else typed)
        return harmless_line(f"{typed}: Hydra cannot read this value; as text it is quoted twice: {text}")
    behind = error.__context__
    message = harmless_line(str(behind if isinstance(behind, UsageError) else error))
    return refused_by_hydra(message) or not_keys(message) or message


def content_of(node: DictConfig) -> dict[str, object]:
    """The content of a config node, with its interpolations resolved."""
    content = OmegaConf.to_container(node, resolve=True)
    assert isinstance(content, dict), "a config node holds keys and values"
    return {str(key): value for key, value in content.items()}


def build(node: DictConfig, *positional: object, **keywords: object) -> Any:
    """The object that a config node describes. Refuses what conf/ does not name in the group whose key the node has,
    and turns a mistake in the values into a UsageError.
    """
    from hydra.errors import InstantiationException
    from hydra.utils import get_object, instantiate

    options = content_of(node)
    key = node._key()
    if isinstance(key, str) and key in groups():
        check_group(key, options)
    else:
        check_node(options)
    logging.getLogger(get_object.__module__).disabled = True  # it prints what is raised, too, in two lines
    for target in _targets(options):
        try:
            get_object(target)
        except ImportError as error:
            if isinstance(error.__cause__, UsageError):  # a package is missing, and the module has said which
                raise error.__cause__ from None
            if (wanted := missing(target.rpartition(".")[0], error.__cause__)) is not None:
                raise wanted from None
            raise UsageError(f"_target_={target}: {_why_not_found(target, error)}") from error
    try:
        # the default conversion hands over DictConfigs; plain containers are simpler to work with
        return instantiate(_without_hashes(options), *positional, _convert_="all", **keywords)
    except InstantiationException as error:
        cause = error.__cause__
        if isinstance(cause, UsageError):  # it names the key that was typed: the class says less
            raise cause from None
        if isinstance(cause, (ValueError, TypeError, AttributeError)):
            raise UsageError(by_key(key or "", options, keywords, cause)) from cause
        if cause is not None and is_lack_of_memory(cause):
            raise cause from None  # by its own name: who checks arms goes on without this one's model
        raise


def _why_not_found(target: str, error: ImportError) -> str:
    """Why Hydra finds no class: there is none of this name, or the import of its module failed, which says why."""
    cause: BaseException | None = error
    while cause is not None and cause.__cause__ is not None:  # what lies in its context is Hydra's own search
        cause = cause.__cause__
    if isinstance(cause, AttributeError) and cause.name is not None:
        return "there is no such class or function"
    if isinstance(cause, ModuleNotFoundError) and f"{target}.".startswith(f"{cause.name}."):
        return "there is no such class or function" if cause.name == target else f"there is no module {cause.name}"
    return f"its module cannot be imported: {type(cause).__name__}: {harmless_line(str(cause))}"


def _without_hashes(node: Any) -> Any:
    """The node without the hashes of sources and files, at any depth: they are no arguments."""
    if isinstance(node, dict):
        hashes = {SOURCE_HASH, *(f"{key}{SHA256}" for key in node)}
        return {key: _without_hashes(value) for key, value in node.items() if key not in hashes}
    return [_without_hashes(value) for value in node] if isinstance(node, list) else node


def build_optional(node: DictConfig | None, *positional: object, **keywords: object) -> Any:
    """The object that a node describes; None for a group without a choice (null)."""
    return None if node is None else build(node, *positional, **keywords)


def _targets(node: object) -> list[str]:
    if isinstance(node, dict):
        own = [node["_target_"]] if "_target_" in node else []
        return own + [t for value in node.values() for t in _targets(value)]
    return [t for value in node for t in _targets(value)] if isinstance(node, list) else []

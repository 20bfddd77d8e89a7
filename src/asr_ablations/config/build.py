"""Build objects from a resolved config."""

import difflib
import functools
import logging
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, ListConfig, Node, OmegaConf, flag_override
from omegaconf.errors import OmegaConfBaseException

from asr_ablations.config.keys import expect_keys, read_every_key
from asr_ablations.config.targets import (
    MARKS,
    SOURCE_HASH,
    check_trusted,
    groups,
    list_targets,
    null_option,
    options_by_name,
    source_hash,
)
from asr_ablations.tools.errors import is_lack_of_memory, missing
from asr_ablations.tools.files import REPOSITORY, format_override, quote_word, typed
from asr_verdicts.config import SHA256
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.terminal import harmless_line

READ_BY_ASSEMBLY = {"optimizer": ("rates", "decay_norms_and_biases")}
"""For each group, keys of its options that their classes do not receive, because training/assembly.py reads them."""
KINDS = {bool: "true or false", int: "a number", float: "a number", str: "a string", list: "a list", dict: "keys"}


def check_targets(cfg: DictConfig) -> None:
    """Resolve a config. Raise UsageError if a group has no class, or a class that no file in conf/ names."""
    try:
        # overrides are not resolved, because they are recorded as the user typed them
        if isinstance(words := cfg._get_node("overrides"), Node) and words._is_interpolation():
            cfg.overrides = OmegaConf.to_container(words._dereference_node(), resolve=False)
        OmegaConf.resolve(cfg)
    except OmegaConfBaseException as error:
        raise UsageError(one_line(error)) from error
    content: dict[str, Any] = OmegaConf.to_container(cfg)  # type: ignore[assignment]
    content.pop("overrides", None)  # nothing is built from overrides, which may contain ${…}
    for group, node in content.items():
        null = null_option(group) if group in groups() else None
        if isinstance(read_every_key().get(group), dict) and not isinstance(node, dict):
            raise expect_keys(group, node)
        if null and isinstance(node, dict) and "_target_" not in node:  # for example after +penalty.scale=1
            raise UsageError(f"{', '.join(f'{group}.{name}' for name in node)}: {group}={null} has no such key")
        if group in groups() and not isinstance(node, dict) and (node is not None or null is None):
            raise choices(group, node, f"an option of conf/{group}")
        check_trusted(group, node)
    _record_sources(cfg)


def _record_sources(node: object) -> None:
    """Store the source hash of each user's class in its node. Raise UsageError if the node has a different hash."""
    if not isinstance(node, (DictConfig, ListConfig)) or node._is_none() or node._is_missing():
        return
    for key in list(node) if isinstance(node, DictConfig) else range(len(node)):
        _record_sources(node._get_node(key))  # not node[key], because reading a missing value is an error
    if not isinstance(node, DictConfig) or "_target_" not in node:
        return
    target = node._get_node("_target_")
    if (actual := source_hash(str(target))) is None:
        return
    if node.get(SOURCE_HASH, actual) != actual:
        changed = "its source has changed since this config was composed, and its runs need the earlier source"
        raise UsageError(f"_target_={target}: {changed} (SHA-256 {node[SOURCE_HASH]})")
    with flag_override(node, ["struct", "readonly"], False):
        node[SOURCE_HASH] = actual


def one_line(error: Exception) -> str:
    """Return the message of a config error in one line. Hydra's cryptic messages are reworded."""
    if isinstance(word := getattr(error, "override", None), str):  # an error of Hydra's grammar
        text = quote_word(format_override(*word.split("=", 1)) if "=" in word else word)
        return harmless_line(f"{word}: Hydra cannot read this value; to pass it as text, quote it twice: {text}")
    if (name := getattr(error, "missing_cfg_file", None)) is not None:  # Hydra's error for a missing file
        if options := getattr(error, "options", None):
            own = Path("conf", f"{name}.yaml")
            hint = f"; to use {own}, add -cd conf" if own.is_file() else ""
            return f"{'='.join(str(name).rsplit('/', 1))}: expected {', '.join(options)}{hint}"
        near = difflib.get_close_matches(str(name), [file.stem for file in (REPOSITORY / "sweeps").glob("*.yaml")], n=1)
        nearest = "".join(f"nearest: -cd sweeps -cn {sweep}; " for sweep in near)
        return (
            f"-cn {name}: there is no such file in conf/ or in the folder of -cd; {nearest}{typed('sweeps')} lists them"
        )
    behind = error.__context__
    return harmless_line(str(behind if isinstance(behind, UsageError) else error))


def read_content(node: DictConfig) -> dict[str, object]:
    """Return a config node as a plain dict, with all ${…} resolved."""
    return OmegaConf.to_container(node, resolve=True)  # type: ignore[return-value]


def build(node: DictConfig, *positional: object, **keywords: object) -> Any:
    """Build the object that a config node describes. Raise UsageError for wrong values and for untrusted classes."""
    from hydra.errors import InstantiationException
    from hydra.utils import get_object, instantiate

    options = read_content(node)
    key = node._key()
    check_trusted(str(key) if key in groups() else None, options)
    for value, line in _compare_kinds(str(key), options):
        if isinstance(value, bool) or value != value or (KINDS[bool] in line and value is not None):
            raise UsageError(line)  # torch would misread it: true as 1, any string as true
    logging.getLogger(get_object.__module__).disabled = True  # otherwise Hydra would log each error a second time
    for target in list_targets(options):
        try:
            get_object(target)
        except ImportError as error:
            if isinstance(error.__cause__, UsageError):  # the module itself reports a missing package
                raise error.__cause__ from None
            if (wanted := missing(target.rpartition(".")[0], error.__cause__)) is not None:
                raise wanted from None
            failure = error.__cause__ or error
            is_missing = getattr(failure, "name", None) == target  # the module was found, but not the class
            reason = "there is no such class" if is_missing else f"{type(failure).__name__}: {failure}"
            raise UsageError(harmless_line(f"_target_={target}: cannot be imported: {reason}")) from error
    try:
        # without _convert_, classes would receive DictConfigs instead of plain dicts and lists
        arguments = {name: value for name, value in options.items() if name not in READ_BY_ASSEMBLY.get(str(key), ())}
        return instantiate(_remove_hashes(arguments), *positional, _convert_="all", **keywords)
    except InstantiationException as error:
        cause = error.__cause__
        if isinstance(cause, UsageError):  # its message needs no rewording
            raise cause from None
        if isinstance(cause, (ValueError, TypeError, AttributeError, OverflowError)):
            raise UsageError(reword_error(key or "", options, keywords, cause)) from cause
        if cause is not None and is_lack_of_memory(cause):
            raise cause from None  # not a user's mistake; the check of all arms then skips this model
        raise


def _remove_hashes(node: Any) -> Any:
    """Remove source and file hashes at any depth of a node, because classes do not accept them as arguments."""
    if isinstance(node, dict):
        hashes = {SOURCE_HASH, *(f"{key}{SHA256}" for key in node)}
        return {key: _remove_hashes(value) for key, value in node.items() if key not in hashes}
    return [_remove_hashes(value) for value in node] if isinstance(node, list) else node


def reword_error(group: object, options: Mapping[str, object], parts: Mapping[str, object], error: Exception) -> str:
    """Reword an error message of a class or of torch to begin with the config key that caused the error.

    parts: other arguments of the class, by group. If a message begins with a short key, such as `channels=0: …`, the
    key is completed, as in `convolutions.1.channels=0: …`. Other messages get a prefix: the keys whose values they
    mention, or else the class. If the error is not a ValueError, a value whose type differs from conf/ is reported.
    """
    message, nodes = str(error), {str(group or ""): options}
    for name, part in parts.items():
        if isinstance(part, functools.partial):
            target = f"{part.func.__module__}.{part.func.__qualname__}"
            nodes[name] = {"_target_": target, "_partial_": True, **part.keywords}
    leaves = [leaf for name, node in nodes.items() for leaf in _leaves(node, name)]
    first, is_key, rest = message.partition("=")
    if is_key and (names := [(key, value) for key, value in leaves if key.rpartition(".")[2] == first]):
        # if several keys have this name, prefer a key whose value the message mentions
        return f"{next((key for key, value in names if rest.startswith(f'{value}')), names[0][0])}={rest}"
    kinds = [kind for name, node in nodes.items() for kind in _compare_kinds(name, node)]
    for value, line in kinds:
        if not isinstance(error, ValueError) and (value is not None or "NoneType" in message):
            return line
    mentioned = ", ".join(f"{key}={value}" for key, value in leaves if _mentions(message, value))
    return f"{mentioned or options.get('_target_')}: {message}"


def _compare_kinds(group: str, options: Mapping[str, object]) -> list[tuple[object, str]]:
    """List values whose type differs from the type in the chosen option's file, each with an error message."""
    nodes = options_by_name(group).values() if group in groups() else ()
    same = [node for node in nodes if node["_target_"] == options.get("_target_") and node.keys() <= options.keys()]
    longest = max(map(len, same), default=0)
    return min(([*_name_kind(group, options, node)] for node in same if len(node) == longest), key=len, default=[])


def _name_kind(place: str, value: object, example: object) -> Iterator[tuple[object, str]]:
    kind = KINDS.get(type(example))
    if kind is None or (isinstance(example, str) and "${" in example):
        return
    if KINDS.get(type(value)) != kind or value != value:
        yield value, str(choices(place, value, f"{kind}, such as {example}"))
    elif isinstance(value, dict) and isinstance(example, dict) and value.get("_target_") == example.get("_target_"):
        for key, entry in value.items():
            yield from _name_kind(f"{place}.{key}", entry, example.get(key))
    elif isinstance(value, list) and isinstance(example, list):
        for number, (entry, other) in enumerate(zip(value, example, strict=False)):
            yield from _name_kind(f"{place}.{number}", entry, other)


def _leaves(node: object, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield each value with its dotted key. A list counts as one value unless it contains nodes."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key not in MARKS:
                yield from _leaves(value, f"{prefix}.{key}".lstrip("."))
    elif isinstance(node, list) and any(isinstance(value, Mapping) for value in node):
        for place, value in enumerate(node):
            yield from _leaves(value, f"{prefix}.{place}")
    else:
        yield prefix, node


def _mentions(message: str, value: object) -> bool:
    """Return whether a message contains a value, or an entry of a list, as a whole word."""
    texts = ["NoneType" if entry is None else str(entry) for entry in (value if isinstance(value, list) else [value])]
    return any(re.search(rf"(?<![\w.-]){re.escape(text)}(?![\w.])", message) for text in texts)

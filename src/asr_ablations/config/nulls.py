"""Null as a value, by what the class that takes it declares: its types alone know what it can do without."""

import inspect
import types
from collections.abc import Mapping, Sequence
from typing import Any, Union, get_args, get_origin

from asr_ablations.config.targets import MARKS
from asr_ablations.tools.errors import UsageError


def refuse_nulls(place: str, node: Mapping[Any, Any]) -> None:
    """Raises UsageError for a null that the node's target has no use for, at any depth. place: the node's key, or "".

    A target without a type for it is left to say so itself.
    """
    from hydra.utils import get_object

    parameters = _parameters(get_object(str(node["_target_"])))
    for key, value in node.items():
        if key in MARKS:
            continue
        name = f"{place}.{key}" if place else str(key)
        if value is None and key in parameters and not _takes_null(parameters[key]):
            raise UsageError(f"{name}=null: expected a value, as {_in_words(parameters[key].annotation)}")
        for inner_name, inner in _below(name, value):
            if "_target_" in inner:
                refuse_nulls(inner_name, inner)


def _below(name: str, value: object) -> list[tuple[str, Mapping[Any, Any]]]:
    if isinstance(value, Mapping):
        return [(name, value)]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [(f"{name}.{place}", inner) for place, inner in enumerate(value) if isinstance(inner, Mapping)]
    return []


def _parameters(target: Any) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(target).parameters
    except (ValueError, TypeError):  # of a class in C
        return {}


def _takes_null(parameter: inspect.Parameter) -> bool:
    """Whether the type has None among its choices, or there is none."""
    annotation = parameter.annotation
    if isinstance(annotation, str):
        return "None" in annotation or "Optional" in annotation or annotation in ("Any", "object")
    if annotation in (inspect.Parameter.empty, Any, object, None) or parameter.default is None:
        return True
    return get_origin(annotation) in (Union, types.UnionType) and type(None) in get_args(annotation)


def _in_words(annotation: Any) -> str:
    return WORDS.get(annotation, "the option's file in conf/ has one")


WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}

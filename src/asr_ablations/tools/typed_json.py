"""Convert JSON to dataclasses, checking the type of every field, and dataclasses to JSON."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

NAMES: dict[object, str] = {
    **{str: "a string", bool: "true or false", int: "a whole number", float: "a number"},
    **{dict: "an object", list: "a list"},
}


def parse(kind: type[T], content: object) -> T:
    """Convert a JSON object to a dataclass, ignoring unknown keys. Raises ValueError for a missing or wrong value."""
    record = _parse(content, kind, "")
    assert isinstance(record, kind)
    return record


def _parse(content: object, kind: object, place: str) -> object:
    """Convert JSON content to the type `kind`. place: dotted key of the content, for error messages."""
    container, arguments = get_origin(kind), get_args(kind)
    if container in (Union, UnionType):
        return None if content is None else _parse(content, arguments[0], place)
    if kind in (object, Any):
        return content
    if isinstance(kind, type) and is_dataclass(kind):
        return _parse_record(_check(content, dict, place), kind, place)
    if container is dict:
        items = _check(content, dict, place).items()
        return {key: _parse(value, arguments[1], _join_place(place, key)) for key, value in items}
    if container is list:
        items = enumerate(_check(content, list, place))
        return [_parse(value, arguments[0], _join_place(place, number)) for number, value in items]
    return _check(content, kind, place)


def _parse_record(content: Mapping[str, object], kind: type, place: str) -> object:
    hints = _read_hints(kind)
    if missing := [name for name, (_, needed) in hints.items() if needed and name not in content]:
        raise ValueError(f"{place or 'it'} has no {', '.join(missing)}")
    present = {name: hint for name, (hint, _) in hints.items() if name in content}
    return kind(**{name: _parse(content[name], hint, _join_place(place, name)) for name, hint in present.items()})


@cache
def _read_hints(kind: type) -> dict[str, tuple[object, bool]]:
    """Return the type of each field, and whether the field is required."""
    types = get_type_hints(kind)
    return {
        field.name: (types[field.name], field.default is MISSING and field.default_factory is MISSING)
        for field in fields(kind)
    }


def _check(content: object, kind: Any, place: str) -> Any:
    """Return the content if it has the plain type `kind`, else raise ValueError. A boolean is not a number."""
    if isinstance(content, bool) != (kind is bool) or not isinstance(content, (int, float) if kind is float else kind):
        raise ValueError(f"{place or 'it'} is not {NAMES[kind]}")
    return content


def _join_place(place: str, key: object) -> str:
    return f"{place}.{key}".lstrip(".")


def as_json(record: object) -> dict[str, object]:
    """Return a dataclass as a JSON object. Fields that are None are left out unless the class lists them in `null`."""
    assert is_dataclass(record)
    values = {field.name: getattr(record, field.name) for field in fields(record)}
    null = getattr(record, "null", ())
    return {name: _convert(value) for name, value in values.items() if value is not None or name in null}


def _convert(value: object) -> object:
    if is_dataclass(value):
        return as_json(value)
    if isinstance(value, dict):
        return {key: _convert(child) for key, child in value.items()}
    return [_convert(child) for child in value] if isinstance(value, list) else value

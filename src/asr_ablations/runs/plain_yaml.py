"""YAML as OmegaConf writes it, read as plain values. A text can be a stranger's: nothing in it is executed."""

import re

import yaml

DEEPEST = 100
"""Levels: at some ten thousand libyaml overflows the stack, and the process dies without a word."""


def load_yaml(text: str) -> object:
    """The content of a text; numbers are read as OmegaConf reads them. Raises ValueError and yaml.YAMLError."""
    _refuse_bombs(text)
    return yaml.load(text, _Loader)


def _refuse_bombs(text: str) -> None:
    """Raises ValueError for aliases, by which a page of YAML becomes a terabyte, and for great depth: OmegaConf writes
    neither.
    """
    depth = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.AliasEvent):
            raise ValueError(f"an alias in line {event.start_mark.line + 1}")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ValueError(f"more than {DEEPEST} levels in line {event.start_mark.line + 1}")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML 1.1 reads 1e-3 as text; OmegaConf, which wrote the file, reads a number. It reads dates as text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?\d[\d_]*(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)

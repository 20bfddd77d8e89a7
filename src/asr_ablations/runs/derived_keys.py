"""The keys of a config that its files compute from other keys, recorded when a run is composed."""

import functools
import re

from asr_ablations.runs.reader import load_yaml
from asr_ablations.tools.files import CONF
from asr_verdicts.config import Config, flatten

REFERENCE = re.compile(r"\$\{(\.?[A-Za-z_][\w.]*\w)\}")
"""A key that a value refers to; with a dot before it, a key beside its own."""


def derived_keys(config: Config) -> dict[str, list[str]]:
    """The derived keys of a resolved config by the present conf/, each with the keys and groups it follows from."""
    own = flatten(config)
    return {key: sources for key, sources in _references().items() if key in own}


@functools.cache
def _references() -> dict[str, list[str]]:
    """The interpolated keys of all files of conf/. A key that a file of a group sets outside the group, as a model sets
    its width, follows from the choice of that group.
    """
    references: dict[str, list[str]] = {}
    for path in sorted(CONF.rglob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        group = ".".join(path.parent.relative_to(CONF).parts)
        everywhere = "@package _global_" in text
        if "${" not in text and not everywhere:
            continue  # to read all files takes longer
        content = load_yaml(text)
        for key, value in flatten(content if isinstance(content, dict) else {}).items():
            beside = key.rpartition(".")[0] if everywhere or not group else f"{group}.{key}".rpartition(".")[0]
            found = REFERENCE.findall(value) if isinstance(value, str) else []
            sources = [f"{beside}{source}" if source.startswith(".") else source for source in found]
            if everywhere and key != group and not key.startswith(f"{group}."):
                sources.append(group)
            known = references.setdefault(key if everywhere or not group else f"{group}.{key}", [])
            known += [source for source in sources if source not in known]
    return {key: sources for key, sources in references.items() if sources}

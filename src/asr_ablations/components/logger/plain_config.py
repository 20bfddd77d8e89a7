"""A config flattened to choices and values, for tables of runs: rnn: lstm, optimizer: adamw, optimizer.lr: 0.003."""

import os
from collections.abc import Iterator

from asr_ablations.config.targets import MARKS, contents_by_name, groups, null_option, options_by_name
from asr_ablations.runs.identity import of_the_experiment
from asr_verdicts.config import MACHINE_KEYS, WHEREABOUTS, Config, flatten

COMPARED = ("sweep", "ablation", "arms", "arm")
"""Keys that do not change results, but are read by comparisons of runs."""
HIDDEN = frozenset(
    {*(key for key in MACHINE_KEYS if key not in COMPARED), "languages", "cache.root", "cache.gigabytes"}
) | {f"data.{key}" for key in WHEREABOUTS}


def plain_config(config: Config) -> Config:
    """Flatten a resolved config: the name of every group's option, and all values by their dotted keys.

    Nulls and keys that only concern the machine are left out; ~ replaces the home folder.
    """
    group_names = groups()
    plain: Config = {}
    for key, value in config.items():
        if key in ("ablation", "arms"):
            plain[key] = value
        elif value is None and key in group_names and (name := null_option(key)):
            plain[key] = name
        elif isinstance(value, dict):
            plain |= {key: name_option(key, value, config)} if key in group_names and "_target_" in value else {}
            plain |= _leaves(value, f"{key}.")
        else:
            plain[key] = value
    visible = {key: value for key, value in plain.items() if not HIDDEN & {*_prefixes(key)}}
    words = config.get("overrides")
    typed = [str(word) for word in words] if isinstance(words, list) else []
    return {
        key: _without_home(value)
        for key, value in {**visible, "overrides": of_the_experiment(typed)}.items()
        if value is not None
    }


def name_option(group: str, node: Config, config: Config) -> str:
    """Find the name of the option that a node was made from.

    Of the group's files with the same target, it differs least from the config; of several, it sets the most keys.
    """
    named = [name for name, option in options_by_name(group).items() if option["_target_"] == node["_target_"]]
    if not named:
        return str(node["_target_"]).rpartition(".")[2]
    whole = _leaves({**config, group: node})

    def distance(name: str) -> tuple[int, int]:
        content = contents_by_name(group)[name]
        sets = {group: content} if "_target_" in content else content
        fixed = {key: value for key, value in _leaves(sets).items() if "${" not in str(value)}
        return sum(whole.get(key) != value for key, value in fixed.items()), -len(fixed)

    return min(named, key=distance)


def _leaves(node: Config, prefix: str = "") -> dict[str, object]:
    return {key: value for key, value in flatten(node, prefix).items() if key.rpartition(".")[2] not in MARKS}


def _prefixes(key: str) -> Iterator[str]:
    """Yield the dotted key and its prefixes: a.b.c, a.b, a."""
    while key:
        yield key
        key = key.rpartition(".")[0]


def _without_home(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_home(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_home(inner) for inner in value]
    home = os.path.expanduser("~")
    return value.replace(f"{home}/", "~/") if isinstance(value, str) and len(home) > 1 else value

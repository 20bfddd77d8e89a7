"""Conversion of a config to a flat dict of options and values, such as rnn: lstm and optimizer.lr: 0.003."""

import os
from typing import cast

from asr_ablations.config.targets import MARKS, contents_by_name, groups, null_option, options_by_name
from asr_ablations.runs.identity import of_the_experiment
from asr_verdicts.config import MACHINE_KEYS, WHEREABOUTS, Config, flatten, within

COMPARED = ("sweep", "ablation", "arms", "arm")
"""Keys that do not affect results, but are needed to compare runs."""
HIDDEN = frozenset(
    {*(key for key in MACHINE_KEYS if key not in COMPARED), "languages", "cache.root", "cache.gigabytes"}
) | {f"data.{key}" for key in WHEREABOUTS}


def plain_config(config: Config) -> Config:
    """Flatten a resolved config to a dict of the chosen option in each group, and of all other values by dotted key.

    Null values and keys that concern only the machine are left out. In values, ~ replaces the path of the home folder.
    """
    plain: Config = {}
    for key, value in config.items():
        if isinstance(value, dict) and key not in ("ablation", "arms"):
            if key in groups() and "_target_" in value:
                plain[key] = name_option(key, value, config)
            elif key == "callbacks":  # options by name
                plain[key] = "+".join(value) or "none"
            plain |= _leaves(value, f"{key}.")
        else:
            plain[key] = null_option(key) if value is None and key in groups() else value
    plain = {key: value for key, value in plain.items() if not within(key, HIDDEN)}
    plain["overrides"] = of_the_experiment(map(str, cast(list[object], config.get("overrides") or [])))
    return {key: _without_home(value) for key, value in plain.items() if value is not None}


def name_option(group: str, node: Config, config: Config) -> str:
    """Return the name of the group's option from which a config node was built.

    Of the options with the node's target, the one with the fewest differences from the config is chosen. If several
    options are tied, the one that sets the most keys is chosen.
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


def _without_home(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_home(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_home(inner) for inner in value]
    home = os.path.expanduser("~")
    return value.replace(f"{home}/", "~/") if isinstance(value, str) and len(home) > 1 else value

"""The arms of a comparison may differ in the declared factor only."""

import json
from collections.abc import Iterable, Mapping, Sequence

from asr_verdicts.config import flatten, within
from asr_verdicts.errors import UsageError
from asr_verdicts.record import BEHAVIOUR, FINGERPRINT, ConfiguredRun

OF_REPLICATES = ("data.corpus_seed", "data.fold")
"""Keys for what a built-in corpus is drawn from, and for the speakers that a corpus is tested on."""

Differing = dict[str, list[object]]
"""Dotted keys of configs, each with its different values."""


References = dict[str, list[str]]
"""Keys with the keys and groups that their values follow from."""

SET_BY_CHOICES: References = {
    "alphabet.characters": ["data.language"], "width": ["model"], "layers": ["model"], "dropout": ["data", "model"],
    "batch.size": ["data"], "max_epochs": ["data"], "weights_sha256": ["weights"],
}  # fmt: skip
"""The keys that other choices set in runs that did not record their derived keys, as in sweeps/records."""


class ConfoundedError(UsageError):
    """The arms differ in more than the factor; `keys` are the other keys with their values."""

    def __init__(
        self,
        factor: Sequence[str],
        keys: Differing,
        reason: str = "the runs have no factor that could explain:",
    ) -> None:
        self.keys = keys
        head = f"the arms differ in more than the factor {', '.join(factor)}:" if factor else reason
        lines = [f"  {key}: {', '.join(map(value_text, values))}" for key, values in keys.items()]
        hint = "  (--allow KEY compares nevertheless, and the report says so; --allow takes whole groups too)"
        super().__init__("\n".join([head, *lines, hint]))


def value_text(value: object) -> str:
    """A value of a config as a user would write it; (none) for a key that a run does not have."""
    return "(none)" if value is MISSING else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


MISSING = object()


def differing(runs: Sequence[ConfiguredRun]) -> Differing:
    """Keys whose values are not the same in all runs, with their different values."""
    contents = [run.content for run in runs]
    values = {key: _distinct(contents, key) for key in dict.fromkeys(key for keys in contents for key in keys)}
    hashed = all(any(within(key, [FINGERPRINT]) for key in keys) for keys in contents)
    ignored = [] if hashed else [FINGERPRINT]  # a record without data.json, as from W&B: data cannot be compared
    return {key: distinct for key, distinct in values.items() if len(distinct) > 1 and not within(key, ignored)}


def _distinct(contents: Sequence[Mapping[str, object]], key: str) -> list[object]:
    """The different values of a key, which need not be hashable, in the order of the runs."""
    values: list[object] = []
    for content in contents:
        if (value := content.get(key, MISSING)) not in values:
            values.append(value)
    return values


def confounds(runs: Sequence[ConfiguredRun], factor: Sequence[str], differ: Differing) -> Differing:
    """The differing keys that neither are the factor nor follow from it."""
    follows = {key for key in derived(factor, references(runs)) if not _set_differently(runs, key)}
    if any(within(root, ["data"]) for root in factor):
        follows.add(FINGERPRINT)
    return {key: values for key, values in differ.items() if not within(key, [*factor, *follows])}


def find_factor(runs: Sequence[ConfiguredRun], differ: Differing, allowed: Sequence[str]) -> list[str]:
    """The group or key that the runs differ in, where none was declared. Raises ConfoundedError for several."""
    own = {key: values for key, values in differ.items() if not within(key, [FINGERPRINT, BEHAVIOUR])}
    known = references(runs)
    followers = {key for key in own if not _set_differently(runs, key) and _follows_from_another(key, own, known)}
    own = {key: values for key, values in own.items() if key not in followers and not within(key, allowed)}
    roots = list(dict.fromkeys(key.split(".")[0] for key in own))
    if len(roots) > 1:
        reason = "no factor is declared (ablation.factor), and the runs differ in several keys:"
        raise ConfoundedError([], own, reason)
    if not roots and differ:
        return list(allowed)
    leaf = list(own)
    explained = all(within(key, derived(leaf, known)) for key in followers)
    alone = len(leaf) == 1 and not leaf[0].endswith("._target_") and explained
    return leaf if alone else roots


def _follows_from_another(key: str, keys: Iterable[str], known: References) -> bool:
    """True if the key follows from a different group of the keys."""
    groups = [(other.split(".")[0], other) for other in keys]
    return any(within(key, derived([root, other], known)) and not within(key, [root]) for root, other in groups)


def replicated(runs: Sequence[ConfiguredRun]) -> list[str]:
    """Keys that belong to the seed: where every seed has a corpus of its own, alike in all arms (data.corpus_seed set
    to the seed), or test speakers of its own (data.fold), these are replicates and no difference between arms.
    """
    keys = [key for key in OF_REPLICATES if _is_of_seed(runs, key)]
    return [*keys, FINGERPRINT] if keys else []


def _is_of_seed(runs: Sequence[ConfiguredRun], key: str) -> bool:
    """True if the key has one value for each seed, and another for every other seed."""
    seeds: dict[int, set[str]] = {}
    for run in runs:
        seeds.setdefault(int(run.config["seed"]), set()).add(value_text(run.content.get(key, MISSING)))
    own = all(len(values) == 1 for values in seeds.values()) and len(set.union(*seeds.values())) == len(seeds)
    return own and len(seeds) > 1


def _set_differently(runs: Sequence[ConfiguredRun], key: str) -> bool:
    """True if the runs' own overrides set the key to different values: then it does not follow from another key."""
    lines = {next((o for o in reversed(run.overrides) if o.lstrip("+~").startswith(f"{key}=")), "") for run in runs}
    return len(lines) > 1


def references(runs: Sequence[ConfiguredRun]) -> References:
    """The derived keys that the runs recorded. For a record without them, SET_BY_CHOICES, and every key that has the
    value of the top-level key of its last name in all runs, as model.dropout has of dropout.
    """
    recorded = [run.derived for run in runs]
    known = {**SET_BY_CHOICES, **_of_one_name(runs)} if None in recorded else {}
    for of_run in recorded:
        known |= of_run or {}
    return known


def _of_one_name(runs: Sequence[ConfiguredRun]) -> References:
    configs = [flatten(run.config) for run in runs]
    dotted = dict.fromkeys(key for config in configs for key in config if "." in key)
    names = {key: key.rpartition(".")[2] for key in dotted}
    return {
        key: [name]
        for key, name in names.items()
        if all(name in config and config.get(key, config[name]) == config[name] for config in configs)
    }


def derived(factor: Sequence[str], references: References) -> set[str]:
    """Keys whose value follows from the factor, directly or through other keys."""
    known = set(factor)
    while more := {
        key
        for key, sources in references.items()
        if key not in known and any(within(source, known) for source in sources)
    }:
        known |= more
    return known - set(factor)

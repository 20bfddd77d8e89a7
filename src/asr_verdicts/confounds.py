"""Check for confounds: arms may differ only in the factor under test and in config keys derived from it."""

import json
from collections.abc import Iterable, Mapping, Sequence

from asr_verdicts.config import flatten, within
from asr_verdicts.errors import UsageError
from asr_verdicts.record import BEHAVIOUR, FINGERPRINT, ConfiguredRun

# keys that may change with the seed: the seed of a generated corpus, the test fold, the seed of a training subset
REPLICATE_KEYS = ("data.corpus_seed", "data.fold", "data.subset.seed")

SINGLE_RUNS = "single"  # the sweep that runs without -m belong to

Differing = dict[str, list[object]]  # maps each config key that differs to its distinct values

References = dict[str, list[str]]  # maps each derived config key to the keys and groups that determine it

# derived keys to assume for runs that did not record theirs, such as the runs in sweeps/records
SET_BY_CHOICES: References = {
    "alphabet.characters": ["data.language"], "width": ["model"], "layers": ["model"], "dropout": ["data", "model"],
    "batch.size": ["data"], "max_epochs": ["data"], "weights_sha256": ["weights"],
}  # fmt: skip


class ConfoundedError(UsageError):
    """The error for arms that differ in more than the factor. keys: the confounding keys, with their values."""

    def __init__(
        self,
        factor: Sequence[str],
        keys: Differing,
        reason: str = "the runs differ in keys that no factor explains:",
        remedy: str = "",
    ) -> None:
        self.keys = keys
        head = f"the arms differ in more than the factor {', '.join(factor)}:" if factor else reason
        lines = [f"  {key}: {', '.join(map(value_text, values))}" for key, values in keys.items()]
        hint = "  (--allow KEY compares anyway, with a warning in the report; KEY may be a whole group)"
        super().__init__("\n".join(filter(None, [head, *lines, remedy, hint])))


def value_text(value: object) -> str:
    """Format a config value as a user would type it; the value of a missing key becomes (none)."""
    return "(none)" if value is MISSING else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


MISSING = object()


def differing(runs: Sequence[ConfiguredRun]) -> Differing:
    """Return the config keys and data hashes that differ between runs, with their distinct values."""
    contents = [run.content for run in runs]
    values = {key: _distinct_values(contents, key) for key in dict.fromkeys(key for keys in contents for key in keys)}
    hashed = all(any(within(key, [FINGERPRINT]) for key in keys) for keys in contents)
    ignored = [] if hashed else [FINGERPRINT]  # some runs, such as those from W&B, have no data hashes
    return {key: distinct for key, distinct in values.items() if len(distinct) > 1 and not within(key, ignored)}


def _distinct_values(contents: Sequence[Mapping[str, object]], key: str) -> list[object]:
    """Return the distinct values of a key, in the order of the runs. The values need not be hashable."""
    values: list[object] = []
    for content in contents:
        if (value := content.get(key, MISSING)) not in values:
            values.append(value)
    return values


def confounds(runs: Sequence[ConfiguredRun], factor: Sequence[str], differ: Differing) -> Differing:
    """Return the keys that differ although they are neither the factor nor derived from it."""
    follows = {key for key in derived(factor, references(runs)) if not _set_differently(runs, key)}
    if any(within(root, ["data"]) for root in factor):
        follows.add(FINGERPRINT)
    return {key: values for key, values in differ.items() if not within(key, [*factor, *follows])}


def find_factor(runs: Sequence[ConfiguredRun], differ: Differing, allowed: Sequence[str]) -> list[str]:
    """Infer the factor of runs that declare none: the only config group or key in which they differ.

    Raises ConfoundedError if the runs differ in several groups.
    """
    remaining = {key: values for key, values in differ.items() if not within(key, [FINGERPRINT, BEHAVIOUR])}
    sources = references(runs)
    followers = {
        key for key in remaining if not _set_differently(runs, key) and _follows_from_another(key, remaining, sources)
    }
    remaining = {key: values for key, values in remaining.items() if key not in followers and not within(key, allowed)}
    roots = list(dict.fromkeys(key.split(".")[0] for key in remaining))
    if len(roots) > 1:
        reason = "no factor is declared (ablation.factor), and the runs differ in several keys:"
        together = f"'ablation={{factor: [{','.join(roots)}]}}'"
        sweeps = {str(run.config.get("sweep", SINGLE_RUNS)) for run in runs}
        remedy = f"  (to ask about all of them, add {together} to the sweep's command; it trains no finished run again)"
        raise ConfoundedError([], remaining, reason, remedy if len(sweeps - {SINGLE_RUNS}) == len(sweeps) == 1 else "")
    if not roots and differ:
        return list(allowed)
    leaf = list(remaining)
    explained = all(within(key, derived(leaf, sources)) for key in followers)
    alone = len(leaf) == 1 and not leaf[0].endswith("._target_") and explained
    return leaf if alone else roots


def _follows_from_another(key: str, keys: Iterable[str], known: References) -> bool:
    """Return whether a config key is derived from one of `keys` in a different config group."""
    groups = [(other.split(".")[0], other) for other in keys]
    return any(within(key, derived([root, other], known)) and not within(key, [root]) for root, other in groups)


def replicated(runs: Sequence[ConfiguredRun]) -> list[str]:
    """Return the keys that differ between seeds but not between arms, because each seed is a replicate.

    A replicate has its own generated corpus (data.corpus_seed), test speakers (data.fold) or training subset
    (data.subset.seed).
    """
    keys = [key for key in REPLICATE_KEYS if _changes_with_seed(runs, key)]
    return [*keys, FINGERPRINT] if keys else []


def differing_beyond_seeds(runs: Sequence[ConfiguredRun]) -> Differing:
    """Return the config keys that differ between runs, except keys that only change with the seed."""
    of_seeds = replicated(runs)
    return {key: values for key, values in differing(runs).items() if not within(key, of_seeds)}


def _changes_with_seed(runs: Sequence[ConfiguredRun], key: str) -> bool:
    """Return whether a key has the same value in all runs with the same seed, and a different value for each seed."""
    seeds: dict[int, set[str]] = {}
    for run in runs:
        seeds.setdefault(int(run.config["seed"]), set()).add(value_text(run.content.get(key, MISSING)))
    differs = all(len(values) == 1 for values in seeds.values()) and len(set.union(*seeds.values())) == len(seeds)
    return differs and len(seeds) > 1


def _set_differently(runs: Sequence[ConfiguredRun], key: str) -> bool:
    """Return whether the overrides of the runs set a key or choose its group differently, so that it is not derived."""
    words = (f"{key}=", f"{key.partition('.')[0]}=")
    lines = {next((o for o in reversed(run.overrides) if o.lstrip("+~").startswith(words)), "") for run in runs}
    return len(lines) > 1


def references(runs: Sequence[ConfiguredRun]) -> References:
    """Return the derived keys that the runs recorded, with the keys that determine them.

    If a run did not record its derived keys, SET_BY_CHOICES is added, and a key such as model.dropout counts as derived
    from the top-level key of the same name (dropout) if both have the same value in all runs.
    """
    recorded = [run.derived for run in runs]
    sources = {**SET_BY_CHOICES, **_same_named_keys(runs)} if None in recorded else {}
    for of_run in recorded:
        sources |= of_run or {}
    return sources


def _same_named_keys(runs: Sequence[ConfiguredRun]) -> References:
    configs = [flatten(run.config) for run in runs]
    dotted = dict.fromkeys(key for config in configs for key in config if "." in key)
    names = {key: key.rpartition(".")[2] for key in dotted}
    return {
        key: [name]
        for key, name in names.items()
        if all(name in config and config.get(key, config[name]) == config[name] for config in configs)
    }


def derived(factor: Sequence[str], references: References) -> set[str]:
    """Return the config keys whose values follow from the factor, directly or through other keys."""
    reached = set(factor)
    while more := {
        key
        for key, sources in references.items()
        if key not in reached and any(within(source, reached) for source in sources)
    }:
        reached |= more
    return reached - set(factor)

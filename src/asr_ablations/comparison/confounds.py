"""The arms of a comparison may differ in the declared factor only."""

import functools
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import yaml

from asr_ablations.runs.identity import MACHINE_KEYS, WHEREABOUTS
from asr_ablations.runs.layout import DATA
from asr_ablations.runs.record import RunRecord
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.paths import CONF

NOT_COMPARED = (*MACHINE_KEYS, "seed", *(f"data.{key}" for key in WHEREABOUTS), "cache.root")
FINGERPRINT = DATA
"""Stands for the hash of each set of data.json among the keys: data.json.train and so on."""

BEHAVIOUR = "behaviour"
"""Stands among the keys for the version of the code's behaviour that a run was made with."""


class ConfoundedError(UsageError):
    """Arms that differ in more than the factor; `keys` are those beyond it with their values."""

    def __init__(
        self,
        factor: Sequence[str],
        keys: dict[str, list[Any]],
        reason: str = "the runs have no factor that could explain:",
    ) -> None:
        self.keys = keys
        told = f"the arms differ in more than the factor {', '.join(factor)}:" if factor else reason
        lines = [f"  {key}: {', '.join(map(shown, values))}" for key, values in keys.items()]
        hint = "  (--allow KEY compares all the same, and the report says so; --allow takes whole groups too)"
        super().__init__("\n".join([told, *lines, hint]))


def flatten(node: Any, prefix: str = "") -> dict[str, Any]:
    """Leaves by dotted key; a list is one leaf."""
    if not isinstance(node, dict):
        return {prefix.rstrip("."): node}
    return {key: value for name, child in node.items() for key, value in flatten(child, f"{prefix}{name}.").items()}


def within(key: str, roots: Iterable[str]) -> bool:
    """Whether a dotted key is one of the roots or lies below one."""
    return any(key == root or key.startswith(f"{root}.") for root in roots)


def shown(value: Any) -> str:
    """A config's value as a user would write it; a key that a run has not is told."""
    return "(none)" if value is MISSING else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


MISSING = object()


def content(run: RunRecord) -> dict[str, Any]:
    """All leaves of a run's config that can change its result, the hashes of its data, the code's behaviour."""
    leaves = {key: value for key, value in flatten(run.config).items() if not within(key, NOT_COMPARED)}
    hashes = {f"{FINGERPRINT}.{name}": _fingerprint(told) for name, told in run.data.get("sets", {}).items()}
    return {**leaves, **hashes, BEHAVIOUR: behaviour(run)}


def behaviour(run: RunRecord) -> int:
    """The version of the code's behaviour; what W&B kept without one counts as the first."""
    version = run.environment.get(BEHAVIOUR)
    return 1 if version is None else int(version)


def _fingerprint(told: dict[str, Any]) -> str:
    return next((str(value) for key, value in told.items() if "hash" in key or "sha" in key), json.dumps(told))


def differing(runs: Sequence[RunRecord]) -> dict[str, list[Any]]:
    """Keys whose values are not the same in all runs, with the values there are."""
    contents = [content(run) for run in runs]
    if any(not run.data for run in runs):  # a record from before data.json, or from W&B: nothing can be said
        contents = [{key: v for key, v in one.items() if not within(key, [FINGERPRINT])} for one in contents]
    keys = dict.fromkeys(key for one in contents for key in one)
    found = {}
    for key in keys:
        values: list[Any] = []
        for one in contents:
            if (value := one.get(key, MISSING)) not in values:
                values.append(value)
        if len(values) > 1:
            found[key] = values
    return found


def confounds(runs: Sequence[RunRecord], factor: Sequence[str], found: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """The differing keys that neither are nor follow from the factor."""
    follows = {key for key in derived(factor) if not _asked_differently(runs, key)}
    if any(within(root, ["data"]) for root in factor):
        follows.add(FINGERPRINT)
    return {key: values for key, values in found.items() if not within(key, [*factor, *follows])}


def find_factor(runs: Sequence[RunRecord], found: dict[str, list[Any]], allowed: Sequence[str]) -> list[str]:
    """The one group or key that the runs differ in, where none was declared. Raises ConfoundedError for several."""
    own = {key: values for key, values in found.items() if not within(key, [FINGERPRINT, BEHAVIOUR])}
    followers = {
        key for key in own for other in own
        if within(key, derived([other.split(".")[0], other])) and not within(key, [other.split(".")[0]])
        and not _asked_differently(runs, key)
    }  # fmt: skip
    own = {key: values for key, values in own.items() if key not in followers and not within(key, allowed)}
    roots = list(dict.fromkeys(key.split(".")[0] for key in own))
    if len(roots) > 1:
        reason = "no factor is declared (ablation.factor), and the runs differ in several keys:"
        raise ConfoundedError([], own, reason)
    if not roots and found:
        return list(allowed)
    leaf = list(own)
    explained = all(within(key, derived(leaf)) for key in followers)
    alone = len(leaf) == 1 and not leaf[0].endswith("._target_") and explained
    return leaf if alone else roots


def declared_factor(runs: Sequence[RunRecord]) -> list[str]:
    """ablation.factor of the runs as a list, empty where none declares one. Raises UsageError for several."""
    told = {json.dumps(_as_list((run.config.get("ablation") or {}).get("factor"))) for run in runs}
    told.discard("[]")
    if len(told) > 1:
        raise UsageError(f"the runs declare different factors (ablation.factor): {' and '.join(sorted(told))}")
    return list(json.loads(told.pop())) if told else []


def _as_list(value: Any) -> list[str]:
    return [] if value is None else [str(v) for v in value] if isinstance(value, list) else [str(value)]


def _asked_differently(runs: Sequence[RunRecord], key: str) -> bool:
    """Whether the runs' own overrides set the key to different values: then it follows from nothing."""
    asked = {next((o for o in reversed(run.overrides) if o.lstrip("+~").startswith(f"{key}=")), "") for run in runs}
    return len(asked) > 1


def derived(factor: Sequence[str]) -> set[str]:
    """Keys whose value conf/ computes from the factor, directly or through others."""
    known = set(factor)
    while more := {key for key, sources in _references() if key not in known and _draws_on(sources, known)}:
        known |= more
    return known - set(factor)


def _draws_on(sources: tuple[str, ...], known: set[str]) -> bool:
    return any(within(source, known) for source in sources)


@functools.cache
def _references() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """(key, keys it is interpolated from) of every file of conf/. What a file of a group sets outside of the group,
    as a model its width, follows from the choice of that group.
    """
    found = []
    for path in sorted(CONF.rglob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        group = ".".join(path.parent.relative_to(CONF).parts)
        everywhere = "@package _global_" in text
        for key, value in flatten(yaml.safe_load(text) or {}).items():
            name = key if everywhere or not group else f"{group}.{key}"
            sources = re.findall(r"\$\{([A-Za-z_][\w.]*\w)\}", value) if isinstance(value, str) else []
            if everywhere and not within(key, [group]):
                sources.append(group)
            if sources:
                found.append((name, tuple(sources)))
    return tuple(found)

"""Arms that a sweep file lists under the key `arms`. Each entry contains an arm's changes to the full model."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from asr_ablations.tools.files import format_override
from asr_verdicts.arms import Choice
from asr_verdicts.config import LIST, MACHINE_KEYS, OWN, Config, flatten, within
from asr_verdicts.confounds import ConfoundedError, Differing, confounds, differing, replicated
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.record import AnyRun, ConfiguredRun

NAME = "name"
FULL = "full"  # default name of the arm without changes
FORM = "a list such as [{}, {norm: none}, {rnn: gru, width: 256}]"
NOT_VARIED = ("seed", "hydra", "defaults", *MACHINE_KEYS)
"""Keys that a listed arm must not change: the seed, because all arms run with all seeds, and Hydra and machine keys."""


@dataclass(frozen=True)
class ListedArm:
    """An arm of the list `arms`. changes: the arm's config values, by dotted key; empty for the full model."""

    name: str
    changes: dict[str, object]

    @property
    def keys(self) -> list[str]:
        """Return the changed keys, without Hydra's prefixes + and ~."""
        return [key.lstrip("+~") for key in self.changes]

    @property
    def overrides(self) -> list[str]:
        """Return the Hydra overrides that select this arm: its name first, then its changes."""
        return [f"{key}={format_override_value(value)}" for key, value in {OWN: self.name, **self.changes}.items()]

    @property
    def text(self) -> str:
        """Return the arm's changes in one line, for messages."""
        return " ".join(self.overrides[1:]) or "nothing"


def read_arms(node: object) -> list[ListedArm]:
    """Parse the value of `arms`; null means no arms. Raises UsageError unless it is a list of different arms."""
    if node is None:
        return []
    if not isinstance(node, Sequence) or isinstance(node, str) or len(node) < 2:
        raise UsageError(f"{LIST}={node}: expected {FORM}, with two or more arms")
    arms = [_read_arm(entry) for entry in node]
    for other, arm in itertools.combinations(arms, 2):
        if arm.changes == other.changes:
            raise UsageError(f"{LIST}: {other.name} and {arm.name} make the same changes; expected different arms")
        if arm.name == other.name:
            raise UsageError(f"{LIST}: two arms are called {arm.name}; expected a different {NAME} for each")
    return arms


def _read_arm(entry: object) -> ListedArm:
    if not isinstance(entry, Mapping):
        raise UsageError(
            f"{LIST}: {entry}: expected the keys that the arm changes, such as {{norm: none}}, or {{}} for none"
        )
    changes = flatten({str(key): value for key, value in entry.items() if key != NAME})
    for key, value in changes.items():
        root = key.lstrip("+~").partition(".")[0]
        if root in NOT_VARIED:
            where = "hydra.sweeper.params" if root == "seed" else "the sweep file, for all arms"
            raise UsageError(f"{LIST}: {key}: an arm cannot change this key; expected it in {where}")
        if "${" in str(value):
            raise UsageError(f"{LIST}: {key}={value}: expected a value instead of a reference to another key")
    name = entry.get(NAME)
    if name is not None and (not isinstance(name, str) or not name.strip() or "\n" in name):
        raise UsageError(f"{LIST}: {NAME}={name}: expected a single line of text")
    texts = {key: value if isinstance(value, str) else format_override_value(value) for key, value in changes.items()}
    return ListedArm(name or ", ".join(f"{key}={text}" for key, text in texts.items()) or FULL, changes)


def format_override_value(value: object) -> str:
    """Format a value in Hydra's command-line syntax."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{format_override_value(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ",".join(map(format_override_value, value)) + "]"
    return format_override("", value)[1:] if isinstance(value, str) else str(value)


def merged(lists: Iterable[object]) -> list[ListedArm]:
    """Merge versions of an arm list that grew between launches. Raises UsageError if the meaning of a name changed."""
    arms: dict[str, ListedArm] = {}
    for listed in sorted((read_arms(node) for node in lists), key=len, reverse=True):
        for arm in listed:
            if arms.setdefault(arm.name, arm).changes != arm.changes:
                both = f"{arms[arm.name].text} and {arm.text}"
                raise UsageError(f"{LIST}: {arm.name} means different changes in these runs: {both}")
    return list(arms.values())


def check_arm(config: Mapping[str, object]) -> None:
    """Raise UsageError if a config's `arm` is not in its list `arms`, or if it has an `arm` but no list."""
    arms = read_arms(config.get(LIST))
    if not arms and config.get(OWN) is not None:
        raise choices(OWN, config.get(OWN), f"null, or the name of one of the arms in {LIST}, which a sweep sets")
    if arms and config.get(OWN) not in [arm.name for arm in arms]:
        names = ", ".join(arm.name for arm in arms)
        raise UsageError(
            f"{LIST}: a list of arms ({names}) needs -m and Hydra's own sweeper; {LIST}=null removes the list"
        )


def name_in(overrides: Iterable[str]) -> str | None:
    """Return the arm name in a run's overrides; None if the overrides contain no arm name."""
    # imported only here, because `compare` does not need Hydra
    from hydra.core.override_parser.overrides_parser import OverridesParser

    word = next((word for word in overrides if word.startswith(f"{OWN}=")), None)
    return None if word is None else str(OverridesParser.create().parse_override(word).value())


def listed_arms(runs: Sequence[ConfiguredRun]) -> list[ListedArm]:
    """Return the arms that the runs' configs list; empty if none do. Raises UsageError if their lists conflict."""
    return merged(run.config[LIST] for run in runs if run.config.get(LIST))


def find_extra_keys(
    arms: Sequence[Choice[AnyRun]],
    baseline: Choice[AnyRun],
    listed: Sequence[ListedArm],
    factor: Sequence[str],
    allowed: Sequence[str],
) -> Differing:
    """Return keys that differ between an arm and the baseline although the list of arms does not change them.

    factor: keys that may differ in every arm. Raises ConfoundedError unless `allowed` contains all returned keys.
    """
    changes = {entry.name: entry.keys for entry in listed}
    seed_keys = replicated([run for arm in arms for run in arm.runs])
    other = baseline.levels[OWN]
    overruled: Differing = {}
    for arm in [baseline, *(arm for arm in arms if arm is not baseline)]:
        name = arm.levels[OWN]
        runs = [*baseline.runs, *(arm.runs if arm is not baseline else [])]
        extra_keys = confounds(runs, [*changes[other], *changes[name], *factor, *seed_keys], differing(runs))
        if refused := {key: values for key, values in extra_keys.items() if not within(key, allowed)}:
            declared = ", ".join(changes[name]) or "nothing"
            reason = f"the arm {name} differs from {other} in more keys than the list changes ({declared}):"
            raise ConfoundedError([], refused, f"the runs of the arm {name} differ:" if name == other else reason)
        overruled |= extra_keys
    return overruled


def collect_listed_keys(configs: Mapping[str, Config]) -> tuple[dict[str, list[str]], list[str]]:
    """Return the keys that each arm's name mentions, and all keys that arms change. configs: one config per arm."""
    lists = {name: read_arms(config.get(LIST)) for name, config in configs.items()}
    named = {
        name: [
            key
            for arm in listed
            if arm.name == configs[name].get(OWN)
            for key in arm.keys
            if len(arm.keys) == 1 or f"{key}=" in arm.name
        ]
        for name, listed in lists.items()
    }
    return named, [*dict.fromkeys(key for listed in lists.values() for arm in listed for key in arm.keys)]

"""Arms as a list, `arms` in a sweep file: each names what it changes, and everything else is as in the others."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from asr_verdicts.arms import AnArm, Choice, Named
from asr_verdicts.config import LIST, MACHINE_KEYS, OWN, Config, flatten, within
from asr_verdicts.confounds import ConfoundedError, Differing, confounds, derived, differing, references, replicated
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.record import AnyRun, ConfiguredRun

NAME = "name"
FULL = "full"  # the name of an arm that changes nothing, unless it has one

FORM = "a list such as [{}, {norm: none}, {rnn: gru, width: 256}]"
NOT_VARIED = ("seed", "hydra", "defaults", *MACHINE_KEYS)
"""Keys that make no arm: seeds are repeated for each arm, and the others change no result."""
PLAIN = re.compile(r"[A-Za-z_][\w./-]*")  # texts that stand in an override without quotes


@dataclass(frozen=True)
class ListedArm:
    """changes: values by dotted keys; empty for the full model."""

    name: str
    changes: dict[str, object]

    @property
    def keys(self) -> list[str]:
        """The keys that it changes, without the + of those that are added."""
        return [key.lstrip("+~") for key in self.changes]

    @property
    def text(self) -> str:
        """The changes of the arm, for people."""
        return " ".join(_words(self.changes)) or "nothing"

    @property
    def overrides(self) -> list[str]:
        """The overrides of a run of this arm."""
        return [f"{OWN}={override_text(self.name)}", *_words(self.changes)]


def read_arms(node: object) -> list[ListedArm]:
    """The arms of a list; none of null. Raises UsageError for another form, and for two arms that are one."""
    if node is None:
        return []
    if not isinstance(node, Sequence) or isinstance(node, str) or len(node) < 2:
        raise UsageError(f"{LIST}={node}: expected {FORM}, of two arms or more")
    arms = [_read_arm(entry) for entry in node]
    for number, arm in enumerate(arms):
        for other in arms[:number]:
            if arm.changes == other.changes:
                raise UsageError(f"{LIST}: {other.name} and {arm.name} change the same; expected each arm once")
            if arm.name == other.name:
                raise UsageError(f"{LIST}: two arms have the name {arm.name}; expected a {NAME} for each")
    return arms


def _read_arm(entry: object) -> ListedArm:
    if not isinstance(entry, Mapping):
        raise UsageError(
            f"{LIST}: {entry}: expected the keys that the arm changes, as {{norm: none}}, or {{}} for none"
        )
    changes = flatten({str(key): value for key, value in entry.items() if key != NAME})
    for key, value in changes.items():
        root = key.lstrip("+~").partition(".")[0]
        if root in NOT_VARIED:
            where = "hydra.sweeper.params" if root == "seed" else "the sweep file, for all arms"
            raise UsageError(f"{LIST}: {key}: no arm is made by it; expected it in {where}")
        if "${" in str(value):
            raise UsageError(f"{LIST}: {key}={value}: expected a value, and no reference to another key")
    name = entry.get(NAME)
    if name is not None and (not isinstance(name, str) or not name.strip() or "\n" in name):
        raise UsageError(f"{LIST}: {NAME}={name}: expected a text of one line")
    texts = {key: value if isinstance(value, str) else override_text(value) for key, value in changes.items()}
    return ListedArm(name or ", ".join(f"{key}={text}" for key, text in texts.items()) or FULL, changes)


def _words(changes: Mapping[str, object]) -> list[str]:
    return [f"{key}={override_text(value)}" for key, value in changes.items()]


def override_text(value: object) -> str:
    """A value as Hydra reads it on a command line."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{override_text(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, str):
        plain = PLAIN.fullmatch(value) and value.lower() not in ("null", "true", "false", "nan", "inf")
        if plain:
            return value
        # Hydra reads a backslash as itself, but for those before a quote, or before the end
        return "'" + re.sub(r"(\\*)('|$)", lambda match: 2 * match[1] + ("\\'" if match[2] else ""), value) + "'"
    if isinstance(value, Sequence):
        return "[" + ",".join(map(override_text, value)) + "]"
    return str(value)


def arm_of(config: Config) -> str | None:
    """The name of the arm that a run belongs to, by its config; None where its sweep has no list."""
    name = config.get(OWN)
    return None if name is None else str(name)


def merged(lists: Iterable[object]) -> list[ListedArm]:
    """Merge the records of a list that grew, in the order of the longest. Raises UsageError for an ambiguous name."""
    arms: dict[str, ListedArm] = {}
    for listed in sorted((read_arms(node) for node in lists), key=len, reverse=True):
        for arm in listed:
            if arms.setdefault(arm.name, arm).changes != arm.changes:
                both = f"{arms[arm.name].text} and {arm.text}"
                raise UsageError(f"{LIST}: {arm.name} stands for different changes in these runs: {both}")
    return list(arms.values())


def check_arm(config: Mapping[str, object]) -> None:
    """Raises UsageError for a run beside a list of arms that is none of them, and for an arm without a list."""
    arms = read_arms(config.get(LIST))
    if not arms and config.get(OWN) is not None:
        raise choices(OWN, config.get(OWN), f"null, or the name of one of the arms in {LIST}, which a sweep sets")
    if arms and config.get(OWN) not in [arm.name for arm in arms]:
        names = ", ".join(arm.name for arm in arms)
        raise UsageError(
            f"{LIST}: a list of arms ({names}) is for a sweep with -m and Hydra's own sweeper; {LIST}=null takes none"
        )


def name_in(overrides: Iterable[str]) -> str | None:
    """The name of the arm that overrides make a run of; None where there is no list."""
    for word in overrides:
        key, _, text = word.partition("=")
        if key == OWN:
            if not text.startswith("'"):
                return text
            escaped = re.compile(r"((?:\\\\)*)(\\'|$)")
            return escaped.sub(lambda match: match[1][: len(match[1]) // 2] + ("'" if match[2] else ""), text[1:-1])
    return None


def listed_arms(runs: Sequence[ConfiguredRun]) -> list[ListedArm]:
    """Return the list that the runs were made from, if any. Raises UsageError for lists that contradict each other."""
    return merged(run.config[LIST] for run in runs if run.config.get(LIST))


def explained(listed: Sequence[ListedArm], runs: Sequence[ConfiguredRun]) -> list[str]:
    """The keys that some arm changes, and those that follow from them."""
    keys = [key for arm in listed for key in arm.keys]
    return [*dict.fromkeys([*keys, *sorted(derived(keys, references(runs)))])]


def in_order(arms: Sequence[AnArm], listed: Sequence[ListedArm]) -> list[AnArm]:
    """The arms in the order of the list."""
    names = [arm.name for arm in listed]
    return sorted(arms, key=lambda arm: names.index(arm.levels[OWN]))


def default_baseline(arms: Sequence[Named], listed: Sequence[ListedArm]) -> str:
    """The name of the arm that changes nothing, else of the first one."""
    unchanged = [entry.name for entry in listed if not entry.changes]
    return next((arm.name for arm in arms if arm.levels[OWN] in unchanged), arms[0].name)


def changes_of(arms: Sequence[Named], listed: Sequence[ListedArm]) -> dict[str, str]:
    """The changes of each arm, as text, by its name."""
    texts = {entry.name: entry.text for entry in listed}
    return {arm.name: texts[arm.levels[OWN]] for arm in arms}


def beyond_the_list(
    arms: Sequence[Choice[AnyRun]],
    baseline: Choice[AnyRun],
    listed: Sequence[ListedArm],
    factor: Sequence[str],
    allowed: Sequence[str],
) -> Differing:
    """Return the allowed keys in which an arm differs from the baseline beyond what the two change.

    factor: keys in which all arms may differ. Raises ConfoundedError for keys that are not allowed.
    """
    changes = {entry.name: entry.keys for entry in listed}
    of_seeds = replicated([run for arm in arms for run in arm.runs])
    overruled: Differing = {}
    for arm in [baseline, *(arm for arm in arms if arm is not baseline)]:
        runs = [*baseline.runs, *(arm.runs if arm is not baseline else [])]
        name, other = arm.levels[OWN], baseline.levels[OWN]
        explained_keys = [*changes[other], *changes[name], *factor, *of_seeds]
        beyond = confounds(runs, explained_keys, differing(runs))
        refused = {key: values for key, values in beyond.items() if not within(key, allowed)}
        if refused:
            declared = ", ".join(changes[name]) or "nothing"
            reason = f"the arm {name} differs from {other} in more than it changes by the list ({declared}):"
            raise ConfoundedError([], refused, f"the runs of the arm {name} differ:" if name == other else reason)
        overruled |= beyond
    return overruled


def said_keys(config: Config) -> list[str]:
    """The keys that the name of a list's arm says: its only one, or those that stand in the name."""
    for arm in read_arms(config.get(LIST)):
        if arm.name == arm_of(config):
            return [key for key in arm.keys if len(arm.keys) == 1 or f"{key}=" in arm.name]
    return []


def varied_keys(config: Config) -> list[str]:
    """The keys that the arms of a list change."""
    return [key.lstrip("+~") for arm in config.get(LIST) or [] for key in arm if key != NAME]


def keys_of_lists(configs: Mapping[str, Config]) -> tuple[dict[str, list[str]], list[str]]:
    """The keys that the name of each arm says, and those that some arm changes. configs: one of each arm, by name."""
    varied = dict.fromkeys(key for config in configs.values() for key in varied_keys(config))
    return {name: said_keys(config) for name, config in configs.items()}, [*varied]

"""Arms of a comparison: groups of runs that make the same choice, with names."""

import json
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

from asr_verdicts.config import OWN, leaves, within
from asr_verdicts.confounds import derived, references, value_text
from asr_verdicts.errors import UsageError
from asr_verdicts.record import FINGERPRINT, SYSTEM, AnyRun, ConfiguredRun, Record, Unfinished


@dataclass(frozen=True)
class Arm:
    """The runs with one choice of the factor, which usually differ in their seeds.

    - runs: finished runs
    - diverged: runs that ended because the loss was not finite. They are results, too, with a WER of 100 %.
    - absent: runs without a result
    - levels: choices of the arm, by key or group
    """

    name: str
    runs: list[Record]
    diverged: list[Record] = field(default_factory=list)
    absent: list[Unfinished] = field(default_factory=list)
    levels: dict[str, str] = field(default_factory=dict)

    @property
    def results(self) -> list[Record]:
        """Finished and diverged runs, in the order of seeds."""
        return sorted([*self.runs, *self.diverged], key=lambda run: run.seed)

    def of_seeds(self, seeds: Container[int]) -> "Arm":
        """Return the arm with only the results of these seeds."""
        runs, diverged = ([run for run in of if run.seed in seeds] for of in (self.runs, self.diverged))
        return replace(self, runs=runs, diverged=diverged)


class Named(Protocol):
    """Anything with the name and the choices of an arm."""

    @property
    def name(self) -> str: ...

    @property
    def levels(self) -> dict[str, str]: ...


AnArm = TypeVar("AnArm", bound=Named)


@dataclass(frozen=True)
class Choice(Generic[AnyRun]):
    """A choice of the factor, and the runs that make it, which may or may not have begun."""

    levels: dict[str, str]
    runs: list[AnyRun]

    @property
    def name(self) -> str:
        return name_of(self.levels)


def group(
    runs: Sequence[AnyRun], factor: Sequence[str], differing: Sequence[str], explained: Sequence[str] = ()
) -> list[Choice[AnyRun]]:
    """Group runs by their choices, in the order of the first run of each group.

    - differing: keys that differ between runs; runs with different values belong to different groups
    - explained: keys that names do not mention
    """
    by_content: dict[str, list[AnyRun]] = {}
    for run in runs:
        by_content.setdefault(_content_key(run.content, differing), []).append(run)
    named = [key for key in differing if not within(key, [FINGERPRINT, *explained])]
    levels = _find_levels([runs_[0] for runs_ in by_content.values()], factor, named)
    return [Choice(*pair) for pair in zip(levels, by_content.values(), strict=True)]


def fill_arms(
    choices: Sequence[Choice[Record]], unfinished: Sequence[Unfinished], differing: Sequence[str]
) -> tuple[list[Arm], list[str]]:
    """Return the arms of these choices, with their runs in the order of seeds, and warnings.

    If several runs have the same choice and seed, only the first one counts, and a warning names the others. If runs
    were started to confirm a choice of a search, the run that the search proposed is left out. An unfinished run is
    assigned to an arm by its config, if that arm has results.
    """
    absent: dict[str, list[Unfinished]] = {}
    for lost in unfinished:
        if lost.config is not None:
            absent.setdefault(_content_key(leaves(lost.config), differing), []).append(lost)
    arms, warnings = [], []
    for choice in choices:
        results, reasons = _keep_one_per_seed(choice.name, choice.runs)
        warnings += reasons
        arms.append(
            Arm(
                choice.name,
                [run for run in results if run.diverged_at is None],
                diverged=[run for run in results if run.diverged_at is not None],
                absent=absent.get(_content_key(choice.runs[0].content, differing), []),
                levels=choice.levels,
            )
        )
    return arms, warnings


def _content_key(leaves_: Mapping[str, object], keys: Sequence[str]) -> str:
    return json.dumps([leaves_.get(key) for key in keys if not within(key, [FINGERPRINT])], default=str)


def _keep_one_per_seed(name: str, runs: Sequence[Record]) -> tuple[list[Record], list[str]]:
    """Return one run per seed, in the order of seeds, and warnings about the runs that were left out."""
    confirming = [run for run in runs if not run.searched]
    warnings = []
    if confirming and len(confirming) < len(runs):
        chosen = ", ".join(str(run.seed) for run in runs if run.searched)
        warnings.append(f"{name}, seed {chosen}: a search chose the arm by this run, so it is not evidence: left out")
    seeds: dict[int, Record] = {}
    for run in confirming or runs:
        if run.seed in seeds:
            warnings.append(f"{name}, seed {run.seed}: there are two runs; {run.folder} is left out")
        seeds.setdefault(run.seed, run)
    return [seeds[seed] for seed in sorted(seeds)], warnings


def find_baseline(name: str, arms: Sequence[AnArm]) -> AnArm:
    """Return the baseline that a user means by a name (see find_arm). Raises UsageError with the choices."""
    baseline = find_arm(name, arms)
    if baseline is None:
        raise UsageError(f"baseline={name}: expected {' or '.join(arm.name for arm in arms)}")
    return baseline


def _find_levels(runs: Sequence[ConfiguredRun], factor: Sequence[str], keys: Sequence[str]) -> list[dict[str, str]]:
    """Return the choices of each run, by key or group.

    They are the choices of the factor and of other keys that differ. If two runs still have the same name, the values
    of all differing keys are added.
    """
    explained = [*factor, *derived(factor, references(runs))]
    # a sweep about chance declares the seed as its factor, but its runs are one arm
    differing = [*factor, *(key for key in keys if not within(key, explained))]
    roots = [root for root in dict.fromkeys(differing) if root != "seed"]
    choices = [{root: choice_of(run, root) for root in roots} for run in runs]
    if len(set(map(name_of, choices))) == len(choices):
        return choices
    plain = [key for key in keys if not key.endswith("_target_")]
    return [
        {**levels, **{key: value_text(of_run[key]) for key in plain if key in of_run}}
        for levels, of_run in zip(choices, (run.content for run in runs), strict=True)
    ]


# groups whose option `none` becomes null in the config
NULL_GROUPS = ("auxiliary", "averaging", "debug", "penalty", "pretrain", "pruning", "stopping", "until")


def choice_of(run: ConfiguredRun, root: str) -> str:
    """Return the chosen option of a group, or the value of a plain key.

    The option is named as the user typed it, or else after its class.
    """
    node: object = run.config
    for part in root.split("."):
        node = node.get(part) if isinstance(node, dict) else None
    if node is None and root in NULL_GROUPS:
        return "none"
    if not isinstance(node, dict):
        return value_text(run.content.get(root, node))
    typed = [line.partition("=")[2] for line in run.overrides if line.lstrip("+").startswith(f"{root}=")]
    if typed and re.fullmatch(r"[\w.-]+", typed[-1]):
        return typed[-1]
    target = str(node.get("_target_", root)).split(".")
    return target[-2] if target[0] == "asr_ablations" and len(target) > 2 else target[-1].lower()


def shared_start(arm: Arm) -> str:
    """Return a warning if all seeds of an arm were trained from the same checkpoint, else "".

    Such seeds differ only in fine-tuning. The arms' checkpoints differ by chance, too, but the variation between seeds
    does not show this. In a simulation with five seeds per arm, equal arms were called different in 41 % of sweeps
    (`make campaign PARTS=verdicts`).
    """
    starts = {run.config.get("weights_sha256") for run in arm.results}
    if len(arm.results) < 2 or len(starts) > 1 or None in starts:
        return ""
    named = f"{', '.join(str(run.seed) for run in arm.results)} of {arm.name}"
    return f"Seeds {named} were trained from one checkpoint: the interval covers fine-tuning, not pretraining"


def is_search(arms: Sequence[Arm]) -> bool:
    """Return whether there are at least two runs and a search proposed all of them, so that none confirms a choice."""
    results = [run for arm in arms for run in arm.results]
    return len(results) > 1 and all(run.searched for run in results)


def has_learned(arm: Arm, set_: str) -> bool:
    """Return whether any run of the arm has a WER of at most 90 %."""
    rates = [run.value(set_, "wer") for run in arm.runs]
    return any(rate is not None and rate <= NOT_LEARNED for rate in rates)


NOT_LEARNED = 0.9  # WER above which a model has not learned to transcribe, because it gets almost nothing right

EVERYTHING = "all"  # name of the only arm if runs differ only in their seeds

NAMED = (OWN, SYSTEM)  # keys whose values are names given by the user: of an arm in a list, or of a system

Value = TypeVar("Value")


def name_of(levels: Mapping[str, str]) -> str:
    """Return the name of the arm with these choices: `rnn=lstm`, `rnn=lstm, dropout=0.1`, or a given name."""
    return ", ".join(value if key in NAMED else f"{key}={value}" for key, value in levels.items()) or EVERYTHING


def find_arm(name: str, arms: Sequence[AnArm]) -> AnArm | None:
    """Return the arm that a user means by a name; None if the name fits no arm or several arms.

    `lstm` means rnn=lstm, or "rnn=lstm, batch.size=8" if that is the only LSTM; `shuffled,norm=batch` means the arm
    with these two choices.
    """
    parts = [part.strip() for part in re.split(r",(?![^\[]*\])", name)]
    readings: tuple[Callable[[AnArm], bool], ...] = (
        lambda arm: arm.name == name,
        lambda arm: name in list(arm.levels.values())[:1],
        lambda arm: all(_fits(part, arm.levels) for part in parts),
    )
    for fits in readings:
        matches = [arm for arm in arms if fits(arm)]
        if len(matches) == 1:
            return matches[0]
    return None


def _fits(part: str, levels: Mapping[str, str]) -> bool:
    """Return whether `key=value`, or a value alone, is one of the choices."""
    key, equals, value = part.partition("=")
    return levels.get(key) == value if equals else part in levels.values()


def by_arm(values: Mapping[str, Value], arms: Sequence[Named]) -> dict[str, Value]:
    """Rename keys to the full names of the arms that they mean (see find_arm). Other keys stay as they are."""
    return {(arm.name if (arm := find_arm(key, arms)) else key): value for key, value in values.items()}

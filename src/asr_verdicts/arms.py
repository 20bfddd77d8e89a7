"""Group runs with the same choice for the factor under test into arms, and name the arms."""

import json
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Literal, Protocol, TypeVar

from asr_verdicts.config import OWN, leaves, within
from asr_verdicts.confounds import derived, references, value_text
from asr_verdicts.errors import UsageError
from asr_verdicts.record import FINGERPRINT, SYSTEM, AnyRun, ConfiguredRun, Record, Unfinished


@dataclass(frozen=True)
class Arm:
    """An arm: runs with the same choice for the factor under test, usually with different seeds.

    - runs: finished runs
    - diverged: runs that stopped because the loss was NaN or infinite. They count as results with a WER of 100 %.
    - absent: runs without a result, such as failed or missing runs
    - levels: the arm's choices, by config key or group
    """

    name: str
    runs: list[Record]
    diverged: list[Record] = field(default_factory=list)
    absent: list[Unfinished] = field(default_factory=list)
    levels: dict[str, str] = field(default_factory=dict)

    @property
    def results(self) -> list[Record]:
        """The finished and diverged runs, sorted by seed."""
        return sorted([*self.runs, *self.diverged], key=lambda run: run.seed)

    def of_seeds(self, seeds: Container[int]) -> "Arm":
        """Return a copy of the arm that contains only the results with these seeds."""
        runs, diverged = ([run for run in of if run.seed in seeds] for of in (self.runs, self.diverged))
        return replace(self, runs=runs, diverged=diverged)


class Named(Protocol):
    """An object with the name and the choices of an arm, such as an Arm, a Choice or a PlannedArm."""

    @property
    def name(self) -> str: ...

    @property
    def levels(self) -> dict[str, str]: ...


AnArm = TypeVar("AnArm", bound=Named)


@dataclass(frozen=True)
class Choice(Generic[AnyRun]):
    """A choice for the factor under test, with its runs, which may not have started yet."""

    levels: dict[str, str]
    runs: list[AnyRun]

    @property
    def name(self) -> str:
        return name_of(self.levels)


def group(
    runs: Sequence[AnyRun], factor: Sequence[str], differing: Sequence[str], explained: Sequence[str] = ()
) -> list[Choice[AnyRun]]:
    """Group runs that have the same values for all differing keys. The groups are in the order of their first runs.

    - factor: config keys or groups under test
    - differing: config keys that differ between runs; data hashes among them are ignored
    - explained: differing keys to leave out of the groups' names
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
    """Return an arm for each choice, with its runs sorted by seed, and warnings about runs that were left out.

    If several runs have the same choice and seed, only the first one counts. If further runs confirmed a choice made by
    a hyperparameter search, the runs of the search itself are left out. An unfinished run is assigned to the arm with
    the same config, if that arm has results.
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
    """Return one run per seed, sorted by seed, and warnings about the runs that were left out."""
    confirming = [run for run in runs if not run.searched]
    warnings = []
    if confirming and len(confirming) < len(runs):
        chosen = ", ".join(str(run.seed) for run in runs if run.searched)
        warnings.append(f"{name}, seed {chosen}: a search chose the arm because of this run, so the run is left out")
    seeds: dict[int, Record] = {}
    for run in confirming or runs:
        if run.seed in seeds:
            warnings.append(f"{name}, seed {run.seed}: another run has this seed; {run.folder} is left out")
        seeds.setdefault(run.seed, run)
    return [seeds[seed] for seed in sorted(seeds)], warnings


def find_baseline(name: str, arms: Sequence[AnArm]) -> AnArm:
    """Return the arm that the user chose as the baseline (see find_arm). Raises UsageError if no arm matches."""
    baseline = find_arm(name, arms)
    if baseline is None:
        raise UsageError(f"baseline={name}: expected {' or '.join(arm.name for arm in arms)}")
    return baseline


def _find_levels(runs: Sequence[ConfiguredRun], factor: Sequence[str], keys: Sequence[str]) -> list[dict[str, str]]:
    """Return the choices that make up the name of each run, by config key or group.

    They are the run's choices for the factor and for differing keys that do not follow from it. If two runs still have
    the same name, the values of all differing keys are added.
    """
    explained = [*factor, *derived(factor, references(runs))]
    # a sweep that measures the variation between seeds declares the seed as its factor, but all its runs form one arm
    differing = [*factor, *(key for key in keys if not within(key, explained))]
    roots = [root for root in dict.fromkeys(differing) if root != "seed"]
    choices = [{root: choice_of(run, root) for root in roots} for run in runs]
    if len(set(map(name_of, choices))) == len(choices):
        return choices
    plain = [key for key in keys if not key.endswith("_target_")]
    return [
        {**levels, **{key: _level_text(key, of_run[key]) for key in plain if key in of_run}}
        for levels, of_run in zip(choices, (run.content for run in runs), strict=True)
    ]


def _level_text(key: str, value: object) -> str:
    """Return a value as text, and of the hash of an own variant's source its first digits."""
    return value_text(value)[: 8 if key.endswith("_source_") else None]


# config groups that are null in a resolved config if their option `none` is chosen
NULL_GROUPS = ("auxiliary", "averaging", "debug", "penalty", "pretrain", "pruning", "stopping", "until")


def choice_of(run: ConfiguredRun, root: str) -> str:
    """Return a run's option for a config group, or its value for a plain config key, as text.

    An option's name is the one that the user typed in an override or, without an override, its module or class name.
    Several options of a group are joined by +.
    """
    node: object = run.config
    for part in root.split("."):
        node = node.get(part) if isinstance(node, dict) else None
    if node is None and root in NULL_GROUPS:
        return "none"
    if not isinstance(node, dict):
        return value_text(run.content.get(root, node))
    if all(isinstance(value, dict) for value in node.values()):  # options by name, such as callbacks
        return "+".join(node) or "none"
    typed = [line.partition("=")[2] for line in run.overrides if line.lstrip("+").startswith(f"{root}=")]
    if typed and re.fullmatch(r"[\w.-]+", typed[-1]):
        return typed[-1]
    target = str(node.get("_target_", root)).split(".")
    return target[-2] if target[0] == "asr_ablations" and len(target) > 2 else target[-1].lower()


def shared_start(arm: Arm) -> str:
    """Return a warning if all seeds of an arm were trained from the same checkpoint, else "".

    The variation between such seeds covers only fine-tuning, although the checkpoints of two arms also differ by
    chance. In a simulation with five seeds per arm, a difference between equal arms was therefore claimed in 41 % of
    sweeps (`make campaign PARTS=verdicts`).
    """
    starts = {run.config.get("weights_sha256") for run in arm.results}
    if len(arm.results) < 2 or len(starts) > 1 or None in starts:
        return ""
    named = f"{', '.join(str(run.seed) for run in arm.results)} of {arm.name}"
    return f"Seeds {named} were trained from one checkpoint: the interval covers fine-tuning, not pretraining"


def is_search(arms: Sequence[Arm]) -> bool:
    """Return whether there are at least two runs, and all of them were proposed by a hyperparameter search."""
    results = [run for arm in arms for run in arm.results]
    return len(results) > 1 and all(run.searched for run in results)


def has_learned(arm: Arm, set_: str) -> bool:
    """Return whether at least one run of the arm has a WER of at most 90 % on the test set."""
    rates = [run.value(set_, "wer") for run in arm.runs]
    return any(rate is not None and rate <= NOT_LEARNED for rate in rates)


NOT_LEARNED = 0.9  # WER above which a model counts as not having learned to transcribe


def training_end(losses: Sequence[float]) -> Literal["falling", "rising", ""]:
    """Tell from a run's validation losses whether longer training would probably have helped or has begun to harm.

    - falling: the last of at least three validations has the lowest loss, over 2 % below the loss before
    - rising: the last loss is over 5 % above the lowest
    """
    if len(losses) < 3:
        return ""
    if losses[-1] < 0.98 * min(losses[:-1]):
        return "falling"
    return "rising" if losses[-1] > 1.05 * min(losses) else ""


EVERYTHING = "all"  # name of the single arm if the runs differ only in their seeds

NAMED = (OWN, SYSTEM)  # keys of `levels` whose values are names chosen by the user, for an arm or a system

Value = TypeVar("Value")


def name_of(levels: Mapping[str, str]) -> str:
    """Return the name of an arm with these choices, such as `rnn=lstm, dropout=0.1`, or the name the user chose."""
    return ", ".join(value if key in NAMED else f"{key}={value}" for key, value in levels.items()) or EVERYTHING


def find_arm(name: str, arms: Sequence[AnArm]) -> AnArm | None:
    """Return the arm that matches a name typed by the user; None if no arm or several arms match.

    `lstm` matches rnn=lstm, or "rnn=lstm, batch.size=8" if that is the only LSTM. `shuffled,norm=batch` matches the arm
    with both choices.
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
    """Return whether `part`, which is key=value or a value alone, is one of an arm's choices."""
    key, equals, value = part.partition("=")
    return levels.get(key) == value if equals else part in levels.values()


def by_arm(values: Mapping[str, Value], arms: Sequence[Named]) -> dict[str, Value]:
    """Replace keys that match an arm (see find_arm) with the arm's full name. Keys without a match stay unchanged."""
    return {(arm.name if (arm := find_arm(key, arms)) else key): value for key, value in values.items()}

"""The history of a sweep: its launches, its declaration before the first result, and all looks."""

import copy
import hashlib
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from asr_ablations.runs.layout import LEASES, LOOKS, SWEEP
from asr_ablations.runs.reader import UnreadableFileError, interpolation_in, read_record, read_standing, read_sweep
from asr_ablations.tools.machine import one_at_a_time
from asr_ablations.tools.typed_json import parse
from asr_verdicts.arms import by_arm, find_arm
from asr_verdicts.config import Config, by_content, determining, differences
from asr_verdicts.files import write_json
from asr_verdicts.plan import VerdictPlan


def launches(sweep: Path) -> list[Config]:
    """Return a sweep's launches, oldest first; none without a readable manifest."""
    recorded: list[Config] = _read_key(sweep, "launches", [])
    return recorded


def _read_key(sweep: Path, key: str, otherwise: Any = None) -> Any:
    """Return a key of the manifest; `otherwise` if it is missing or the manifest is unreadable."""
    try:
        return read_sweep(sweep).get(key, otherwise)
    except (FileNotFoundError, UnreadableFileError):
        return otherwise


def newest_declaration(sweep: Path) -> Config | None:
    """Return the keys of `ablation` in a sweep's newest launch; None if they were never declared."""
    recorded: Config | None = _read_key(sweep, "ablation")
    return None if interpolation_in(recorded) is not None else recorded


def searched_arms(sweep: Path) -> frozenset[str]:
    """Return the ids of the runs that a search proposed before any other launch declared them."""
    first = {arm: launch["search"] for launch in reversed(launches(sweep)) for arm in launch["arms"]}
    return frozenset(arm for arm, is_searched in first.items() if is_searched)


def places(sweep: Path) -> dict[str, int]:
    """Return the place of each run, by its id, in the order in which the launches listed them."""
    named = dict.fromkeys(arm for launch in launches(sweep) for arm in launch["arms"])
    return {arm: place for place, arm in enumerate(named)}


def logarithmic(sweep: Path) -> frozenset[str]:
    """Return the keys that a search sampled on a logarithmic scale: tag(log, interval(…))."""
    space = _read_key(sweep, "space", {})
    return frozenset(key for key, values in space.items() if re.match(r"\s*tag\(\s*log\b", str(values)))


@dataclass(frozen=True)
class Look:
    """One look at the results. when: UTC, ISO 8601. arms: number of seeds seen, by arm. runs: `evidence` of the runs
    seen. complete: whether all declared runs had ended. The question: baseline, metric, set, procedure (by name).
    """

    when: str
    arms: dict[str, int]
    runs: str
    complete: bool
    baseline: str
    metric: str
    set: str
    procedure: str

    @property
    def question(self) -> tuple[str, ...]:
        """The key of a look: looks with the same evidence and question count once."""
        return self.runs, self.baseline, self.metric, self.set, self.procedure


def declared(sweep: Path) -> frozenset[str] | None:
    """Return the ids of the first launch's runs, declared before any result; None for a search or without manifest."""
    recorded = launches(sweep)
    return frozenset(recorded[0]["arms"]) if recorded and not recorded[0]["search"] else None


def evidence(ids: Iterable[str]) -> str:
    """Return 16 hexadecimal digits of a hash over the ids of the runs seen, in any order."""
    return hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Looks:
    """All looks at a sweep or evaluations, in order."""

    looks: list[Look]


def looks(folder: Path) -> list[Look]:
    """Return the looks at a sweep or evaluations, in order. Raises UnreadableFileError for a damaged history."""
    try:
        return read_record(folder / LOOKS, Looks).looks
    except FileNotFoundError:
        return []


def record_look(folder: Path, look: Look) -> str | None:
    """Add a look unless one with equal evidence and question is recorded. Returns a warning if that fails."""
    try:
        (folder / LEASES).mkdir(exist_ok=True)
        with one_at_a_time(folder / LEASES / f"{LOOKS}.lock", f"{folder}: waiting for another comparison"):
            recorded = looks(folder)
            if look.question not in {other.question for other in recorded}:
                write_json(folder / LOOKS, asdict(Looks([*recorded, look])))
    except (UnreadableFileError, OSError) as error:
        return f"this look was not recorded: {folder / LOOKS}: {error}"
    return None


@dataclass(frozen=True)
class PlannedRun:
    """A run's part in a plan. look: the first that counts it, from 1. looks: of the plan. state: before this look."""

    look: int
    looks: int
    arm: str
    state: str

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def planned_run(folder: Path, config: Config) -> PlannedRun | None:
    """Return a run's part in its sweep's plan; None without an intact plan, and for a run outside it.

    config: the run's, resolved.
    """
    plan = None
    with suppress(UnreadableFileError):
        plan = read_plan(folder.parent)
    if plan is None or (look := plan.look_of(int(config["seed"]))) is None:
        return None
    content = arm_content(config, plan.belongs)
    state = "open"  # before the first look
    for arm in plan.arms:
        if arm.content == content:
            with suppress(FileNotFoundError, UnreadableFileError, KeyError, TypeError):
                state = str(read_standing(folder.parent)["arms"][arm.name]["state"])
            return PlannedRun(look, len(plan.looks), arm.name, state)
    return None


def arm_content(config: Config, belongs: Iterable[str]) -> Config:
    """Return the part of a resolved config that determines an arm's results, without the dotted keys in `belongs`."""
    content = copy.deepcopy(determining(config))
    for key in belongs:
        node, (*parents, last) = content, key.split(".")
        for parent in parents:
            node = node.get(parent, {})
        node.pop(last, None)
    return content


KEY = "plan"  # in the manifest


def read_plan(sweep: Path) -> VerdictPlan | None:
    """Return a sweep's plan, or None. Raises UnreadableFileError if it is damaged, so that runs remain planned."""
    try:
        recorded = read_sweep(sweep).get(KEY)
    except FileNotFoundError:
        return None
    if recorded is None:
        return None
    try:
        plan = parse(VerdictPlan, recorded)
        arms = [replace(arm, content=by_content(arm.content)) for arm in plan.arms]
        if (baseline := find_arm(plan.baseline, arms)) is None:
            raise ValueError(f"baseline {plan.baseline}")
        if not plan.looks or sorted({*plan.looks}) != plan.looks or len(plan.seeds) < plan.most:
            raise ValueError(f"looks {plan.looks} of {len(plan.seeds)} seeds")
        questions = list(by_arm(dict.fromkeys(plan.contrasts), arms))
        return replace(plan, arms=arms, baseline=baseline.name, contrasts=questions)
    except ValueError as error:
        raise UnreadableFileError(sweep / SWEEP, f"its plan is damaged: {error}") from error


DESCRIBING = ("made", "seen", "notes", "hours")  # fields that may differ between equal plans


def changes(earlier: VerdictPlan, now: VerdictPlan) -> list[str]:
    """List the differences of two plans, one per line. The content of an arm counts, not its overrides or machine."""
    old, new = (
        {**plan.as_json(), **dict.fromkeys(DESCRIBING), "arms": {arm.name: arm.content for arm in plan.arms}}
        for plan in (earlier, now)
    )
    return [f"{key}: {was!r} there, {is_!r} now" for key, was, is_ in differences(old, new)]

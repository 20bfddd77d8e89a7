"""The history of a sweep: its launches, its declaration before the first result, and every look since."""

import copy
import hashlib
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import MISSING, asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypedDict

from asr_ablations.runs.layout import LEASES, LOOKS, SWEEP
from asr_ablations.runs.reader import UnreadableFileError, interpolation_in, read_looks, read_standing, read_sweep
from asr_ablations.tools.machine import one_at_a_time
from asr_verdicts.arms import by_arm, find_arm
from asr_verdicts.config import Config, by_content, determining, differences
from asr_verdicts.files import write_json
from asr_verdicts.plan import PlannedArm, VerdictPlan


class Launch(TypedDict):
    """One start of a sweep: its time, its command line, the ids of its runs, whether a search proposes them."""

    started: str
    command: list[str]
    arms: list[str]
    search: bool


def launches(sweep: Path) -> list[Launch]:
    """The launches of a sweep's folder, the first one first; none without a manifest that can be read."""
    recorded: list[Launch] = _read_key(sweep, "launches", [])
    return recorded if all(launch.keys() >= Launch.__annotations__.keys() for launch in recorded) else []


def _read_key(sweep: Path, key: str, otherwise: Any = None) -> Any:
    """The value of a key of the manifest, or `otherwise` without one and without a manifest that can be read."""
    try:
        return read_sweep(sweep).get(key, otherwise)
    except (FileNotFoundError, UnreadableFileError):
        return otherwise


def newest_declaration(sweep: Path) -> Config | None:
    """The keys of `ablation` as the newest launch of a sweep declared them; None where no launch did."""
    recorded: Config | None = _read_key(sweep, "ablation")
    return None if interpolation_in(recorded) is not None else recorded


def searched_arms(sweep: Path) -> frozenset[str]:
    """The ids of the runs that a search proposed, and that no launch before it had declared."""
    proposed: set[str] = set()
    earlier: set[str] = set()
    for launch in launches(sweep):
        new = {*launch["arms"]} - earlier
        earlier |= new
        if launch["search"]:
            proposed |= new
    return frozenset(proposed)


def places(sweep: Path) -> dict[str, int]:
    """The place of each run, by its id, in the order in which the launches of its sweep named them."""
    named = dict.fromkeys(arm for launch in launches(sweep) for arm in launch["arms"])
    return {arm: place for place, arm in enumerate(named)}


def logarithmic(sweep: Path) -> frozenset[str]:
    """The keys whose values a search drew on a logarithmic scale: tag(log, interval(…))."""
    space = _read_key(sweep, "space", {})
    return frozenset(key for key, values in space.items() if re.match(r"\s*tag\(\s*log\b", str(values)))


@dataclass(frozen=True)
class Look:
    """One look at the results. when: UTC, ISO 8601; arms: seeds seen by the name of the arm; runs: `evidence` of the
    runs seen; complete: whether all runs that were declared had ended. baseline, metric, set: the question; procedure:
    of statistics.procedure, by its name.
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
        """The key of a look: two looks at the same evidence with the same question are one."""
        return self.runs, self.baseline, self.metric, self.set, self.procedure


def declared(sweep: Path) -> frozenset[str] | None:
    """The ids of the runs of the first launch, declared before any result; None for a search or without a manifest."""
    recorded = launches(sweep)
    return frozenset(recorded[0]["arms"]) if recorded and not recorded[0]["search"] else None


def evidence(ids: Iterable[str]) -> str:
    """A hash over the ids of the runs that were seen, whatever their order: 16 hexadecimal digits."""
    return hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()[:16]


def looks(folder: Path) -> list[Look]:
    """The looks at a sweep or at evaluations, in order. Raises UnreadableFileError: a lost history is not empty."""
    try:
        recorded = read_looks(folder)
    except FileNotFoundError:
        return []
    try:
        return [Look(**{field.name: look[field.name] for field in fields(Look)}) for look in recorded]
    except (KeyError, TypeError) as error:
        raise UnreadableFileError(folder / LOOKS, f"a look without {error}") from error


def record_look(folder: Path, look: Look) -> str | None:
    """Add a look, unless the same evidence was asked the same question. Returns a warning if it cannot be recorded."""
    try:
        (folder / LEASES).mkdir(exist_ok=True)
        with one_at_a_time(folder / LEASES / f"{LOOKS}.lock", f"{folder}: waits for another comparison"):
            recorded = looks(folder)
            if look.question not in {other.question for other in recorded}:
                write_json(folder / LOOKS, {"looks": [asdict(entry) for entry in [*recorded, look]]})
    except UnreadableFileError as error:
        return f"this look was not recorded: {error}"
    except OSError as error:
        return f"this look was not recorded: {folder / LOOKS}: {os.strerror(error.errno or 0)}"
    return None


@dataclass(frozen=True)
class PlannedRun:
    """look: the first that counts the run, from 1; looks: of the plan; state: of the arm after the look before."""

    look: int
    looks: int
    arm: str
    state: str

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def planned_run(folder: Path, config: Config) -> PlannedRun | None:
    """The part that the sweep's plan gives a run; None without a plan, a damaged one too, and for a run outside it.

    config: the run's, resolved.
    """
    try:
        plan = read_plan(folder.parent)
        look = None if plan is None else plan.look_of(int(config["seed"]))
        if plan is None or look is None:
            return None
        content = arm_content(config, plan.belongs)
        arm = next((arm.name for arm in plan.arms if arm.content == content), None)
    except UnreadableFileError:
        return None
    state = "open"  # before the first look
    with suppress(FileNotFoundError, UnreadableFileError, KeyError, TypeError):
        state = str(read_standing(folder.parent)["arms"][arm]["state"])
    return None if arm is None else PlannedRun(look, len(plan.looks), arm, state)


def arm_content(config: Config, belongs: Iterable[str]) -> Config:
    """Everything in a resolved config that determines an arm's results, without the dotted keys in `belongs`."""
    content = copy.deepcopy(determining(config))
    for key in belongs:
        node, (*parents, last) = content, key.split(".")
        for parent in parents:
            node = node.get(parent, {})
        node.pop(last, None)
    return content


KEY = "plan"  # the key in the manifest


DESCRIBING = ("made", "seen", "notes", "hours")  # fields that may differ between two plans that are the same


def read_plan(sweep: Path) -> VerdictPlan | None:
    """The plan of a sweep, or None. Raises UnreadableFileError if it is damaged: runs must not count as unplanned."""
    try:
        recorded = read_sweep(sweep).get(KEY)
    except FileNotFoundError:
        return None
    if recorded is None:
        return None
    try:
        values = {
            field.name: recorded[field.name]
            for field in fields(VerdictPlan)
            if field.name in recorded or field.default is MISSING
        }
        arms = [PlannedArm(**{field.name: arm[field.name] for field in fields(PlannedArm)}) for arm in values["arms"]]
        arms = [replace(arm, content=by_content(arm.content)) for arm in arms]
        baseline = find_arm(values["baseline"], arms)
        if baseline is None:
            raise ValueError(f"baseline {values['baseline']}")
        questions = list(by_arm(dict.fromkeys(values["contrasts"]), arms))
        plan = VerdictPlan(**{**values, "arms": arms, "baseline": baseline.name, "contrasts": questions})
        if not plan.looks or sorted({*plan.looks}) != plan.looks or len(plan.seeds) < plan.most:
            raise ValueError(f"looks {plan.looks} of {len(plan.seeds)} seeds")
        return plan
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UnreadableFileError(sweep / SWEEP, f"its plan is damaged: {error}") from error


def changes(before: VerdictPlan, now: VerdictPlan) -> list[str]:
    """The differences of two plans, a line each. The content of an arm counts, and not its overrides or its machine."""
    old, new = (
        {key: value for key, value in plan.as_json().items() if key not in DESCRIBING} for plan in (before, now)
    )
    for values, plan in ((old, before), (new, now)):  # by name, so that a difference names the arm
        values["arms"] = {arm.name: arm.content for arm in plan.arms}
    return [f"{key}: {was!r} there, {is_!r} now" for key, was, is_ in differences(old, new)]

"""A sweep's history: its launches, the runs declared before the first result, its plan, and looks at its results."""

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
    """Return a sweep's launches, oldest first; empty if the manifest is missing or damaged."""
    recorded: list[Config] = _read_key(sweep, "launches", [])
    return recorded


def _read_key(sweep: Path, key: str, otherwise: Any = None) -> Any:
    """Return a value from a sweep's manifest; `otherwise` if the key is missing or the manifest cannot be read."""
    try:
        return read_sweep(sweep).get(key, otherwise)
    except (FileNotFoundError, UnreadableFileError):
        return otherwise


def newest_declaration(sweep: Path) -> Config | None:
    """Return the config group `ablation` of a sweep's newest launch; None if there is none."""
    recorded: Config | None = _read_key(sweep, "ablation")
    return None if interpolation_in(recorded) is not None else recorded


def searched_arms(sweep: Path) -> frozenset[str]:
    """Return the ids of the runs that a search proposed before any other launch declared them."""
    first = {arm: launch["search"] for launch in reversed(launches(sweep)) for arm in launch["arms"]}
    return frozenset(arm for arm, is_searched in first.items() if is_searched)


def places(sweep: Path) -> dict[str, int]:
    """Return each run's position, by run id, in the order in which the launches listed the runs, counted from 0."""
    named = dict.fromkeys(arm for launch in launches(sweep) for arm in launch["arms"])
    return {arm: place for place, arm in enumerate(named)}


def logarithmic(sweep: Path) -> frozenset[str]:
    """Return the keys that a search samples on a logarithmic scale, as in tag(log, interval(1e-4, 1e-2))."""
    space = _read_key(sweep, "space", {})
    return frozenset(key for key, values in space.items() if re.match(r"\s*tag\(\s*log\b", str(values)))


@dataclass(frozen=True)
class Look:
    """One look by a user at a sweep's results.

    - when: time in UTC, as ISO 8601; arms: number of seeds of each arm
    - runs: hash of the ids of the compared runs; complete: whether all declared runs had ended
    - procedure: name of the statistical test
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
        """Return the fields that distinguish looks. Looks with equal fields count once."""
        return self.runs, self.baseline, self.metric, self.set, self.procedure


def declared(sweep: Path) -> frozenset[str] | None:
    """Return the ids of the runs that the first launch declared; None for a search or an unreadable manifest."""
    recorded = launches(sweep)
    return frozenset(recorded[0]["arms"]) if recorded and not recorded[0]["search"] else None


def evidence(ids: Iterable[str]) -> str:
    """Return a hash of run ids, in 16 hexadecimal digits. The order of the ids does not matter."""
    return hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Looks:
    """The contents of looks.json: all looks at a sweep or at a run's evaluations, in order."""

    looks: list[Look]


def looks(folder: Path) -> list[Look]:
    """Return the recorded looks at the results in a folder, in order. Raises UnreadableFileError for a damaged file."""
    try:
        return read_record(folder / LOOKS, Looks).looks
    except FileNotFoundError:
        return []


def record_look(folder: Path, look: Look) -> str | None:
    """Record a look unless an equal look is recorded already. Return a warning if that fails, else None."""
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
    """A run's role in its sweep's plan.

    look: number of the first look that includes the run. looks: number of planned looks. state: the arm's latest state.
    """

    look: int
    looks: int
    arm: str
    state: str


def planned_run(folder: Path, config: Config) -> PlannedRun | None:
    """Return a run's role in its sweep's plan; None if the plan is missing or damaged, or does not include the run.

    config: the run's resolved config.
    """
    plan = None
    with suppress(UnreadableFileError):
        plan = read_plan(folder.parent)
    if plan is None or (look := plan.look_of(int(config["seed"]))) is None:
        return None
    content = arm_content(config, plan.belongs)
    state = "open"  # the state of every arm before the first look
    for arm in plan.arms:
        if arm.content == content:
            with suppress(FileNotFoundError, UnreadableFileError, KeyError, TypeError):
                state = str(read_standing(folder.parent)["arms"][arm.name]["state"])
            return PlannedRun(look, len(plan.looks), arm.name, state)
    return None


def arm_content(config: Config, belongs: Iterable[str]) -> Config:
    """Return the part of a resolved config that determines an arm's results. belongs: keys that vary with the seed."""
    content = copy.deepcopy(determining(config))
    for key in belongs:
        node, (*parents, last) = content, key.split(".")
        for parent in parents:
            node = node.get(parent, {})
        node.pop(last, None)
    return content


KEY = "plan"  # key of the plan in a sweep's manifest


def read_plan(sweep: Path) -> VerdictPlan | None:
    """Return a sweep's plan; None if there is none. Raises UnreadableFileError if the plan is damaged."""
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
            raise ValueError(f"the baseline {plan.baseline} is not one of its arms")
        if not plan.looks or sorted({*plan.looks}) != plan.looks or len(plan.seeds) < plan.most:
            raise ValueError(f"the looks {plan.looks} do not fit {len(plan.seeds)} seeds")
        questions = list(by_arm(dict.fromkeys(plan.contrasts), arms))
        return replace(plan, arms=arms, baseline=baseline.name, contrasts=questions)
    except ValueError as error:
        raise UnreadableFileError(sweep / SWEEP, f"its plan is damaged: {error}") from error


def changes(earlier: VerdictPlan, now: VerdictPlan) -> list[str]:
    """Describe each difference between two plans in one line. Arms with equivalent configs count as equal."""
    ignored = dict.fromkeys(("made", "seen", "notes", "hours"))
    old, new = (
        {**plan.as_json(), **ignored, "arms": {arm.name: arm.content for arm in plan.arms}} for plan in (earlier, now)
    )
    return [f"{key}: {was!r} there, {is_!r} now" for key, was, is_ in differences(old, new)]

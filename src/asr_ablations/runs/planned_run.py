"""What the plan of a sweep says of one of its runs when that begins."""

from dataclasses import asdict, dataclass
from pathlib import Path

from asr_ablations.runs.reader import UnreadableFileError, read_standing
from asr_ablations.runs.verdict_plan import arm_content, read_plan
from asr_ablations.tools.files import Json


@dataclass(frozen=True)
class PlannedRun:
    """look: the first one that counts the run, from 1; looks: how many the plan has. arm: its name in the plan; state:
    of that arm by the look before.
    """

    look: int
    looks: int
    arm: str
    state: str

    def as_json(self) -> Json:
        return asdict(self)


def planned_run(folder: Path, config: Json) -> PlannedRun | None:
    """The part that the plan beside a run's folder gives it; None where there is no plan, or it does not name the run.

    config: the run's, resolved. A damaged plan gives none either: it is the sweep that cannot go on then, not the run.
    """
    try:
        plan = read_plan(folder.parent)
        look = None if plan is None else plan.look_of(int(config["seed"]))
        if plan is None or look is None:
            return None
        own = arm_content(config, plan.belongs)
        arm = next((arm.name for arm in plan.arms if arm.content == own), None)
        return None if arm is None else PlannedRun(look, len(plan.looks), arm, _state(folder.parent, arm))
    except UnreadableFileError:
        return None


def _state(sweep: Path, arm: str) -> str:
    """Of an arm after the latest look; open before the first one."""
    try:
        return str(read_standing(sweep)["arms"][arm]["state"])
    except (FileNotFoundError, UnreadableFileError, KeyError, TypeError):
        return "open"

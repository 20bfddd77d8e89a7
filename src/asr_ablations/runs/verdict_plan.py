"""The plan of an ablation that adds seeds until it knows: read from the sweep's manifest."""

from dataclasses import MISSING, fields, replace
from pathlib import Path

from asr_ablations.runs.layout import SWEEP
from asr_ablations.runs.reader import UnreadableFileError, read_sweep
from asr_verdicts.arms import by_arm, find_arm
from asr_verdicts.config import by_content, differences
from asr_verdicts.plan import PlannedArm, VerdictPlan

KEY = "plan"
"""The key in the manifest."""


DESCRIBING = ("made", "seen", "notes", "hours")
"""Fields that may differ between two plans that are the same."""


def read_plan(sweep: Path) -> VerdictPlan | None:
    """The plan of a sweep's folder; None for a sweep without one. Raises UnreadableFileError for a damaged one: runs
    must not be judged as if nothing had been planned.
    """
    try:
        recorded = read_sweep(sweep).get(KEY)
    except FileNotFoundError:
        return None
    if recorded is None:
        return None
    try:
        optional = {one.name for one in fields(VerdictPlan) if one.default is not MISSING}
        values = {
            one.name: recorded[one.name]
            for one in fields(VerdictPlan)
            if one.name in recorded or one.name not in optional
        }
        arms = [PlannedArm(**{one.name: arm[one.name] for one in fields(PlannedArm)}) for arm in values["arms"]]
        arms = [replace(arm, content=by_content(arm.content)) for arm in arms]
        baseline = find_arm(values["baseline"], arms)
        if baseline is None:
            raise ValueError(f"baseline {values['baseline']}")
        questions = list(by_arm(dict.fromkeys(values["contrasts"]), arms))
        plan = VerdictPlan(**{**values, "arms": arms, "baseline": baseline.name, "contrasts": questions})
        _check(plan)
        return plan
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UnreadableFileError(sweep / SWEEP, f"its plan is damaged: {error}") from error


def _check(plan: VerdictPlan) -> None:
    """Raises ValueError for a plan that cannot be followed."""
    if not plan.looks or sorted({*plan.looks}) != plan.looks or len(plan.seeds) < plan.most:
        raise ValueError(f"looks {plan.looks} of {len(plan.seeds)} seeds")


def changes(before: VerdictPlan, now: VerdictPlan) -> list[str]:
    """The differences of two plans, a line each. The content of an arm counts, and not its overrides or its machine."""
    old, new = (
        {key: value for key, value in plan.as_json().items() if key not in DESCRIBING} for plan in (before, now)
    )
    for values, plan in ((old, before), (new, now)):  # by name, so that a difference names the arm
        values["arms"] = {arm.name: arm.content for arm in plan.arms}
    return [f"{key}: {was!r} there, {is_!r} now" for key, was, is_ in differences(old, new)]

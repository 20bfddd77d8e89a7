"""Report a sweep's planned looks: one row per question and look, the plan, and the plan's cost."""

import math
from collections.abc import Callable, Sequence

from asr_verdicts.comparison import Comparison
from asr_verdicts.files import Json
from asr_verdicts.metrics import Metric, find_metric, format_interval
from asr_verdicts.plan import VerdictPlan
from asr_verdicts.planned_looks import Spent, spent
from asr_verdicts.report.section import Section, tabulate
from asr_verdicts.scales import SCALES
from asr_verdicts.verdict import Verdict

# A chart extends to at most this multiple of the margin and of the intervals at the latest looks.
# Otherwise the long intervals of early looks would make all other intervals look like points.
ROOM = 2.5


def look_rows(comparison: Comparison) -> list[Json]:
    """Return one row per question and look, in the order of the questions; empty if there is no plan.

    Differences and intervals are in the recorded metric's unit (fractions for error rates). On the relative scale, they
    are fractions of the baseline's rate.

    - low, high: repeated confidence interval
    - equal_low, equal_high: interval that must lie within the margin for equivalence
    - chance: probability of a verdict by the last look; None if the question is neither open nor undecided
    """
    names = [contrast.arm for contrast in comparison.course.verdicts]
    measured = [contrast for look in comparison.course.looks for contrast in look.verdicts]
    return [_look_row(contrast) for contrast in sorted(measured, key=lambda contrast: names.index(contrast.arm))]


def _look_row(contrast: Verdict) -> Json:
    at = contrast.look
    assert at is not None
    decided, fraction = contrast.decided, contrast.scale.fraction
    low, high = (None, None) if decided is None else (decided.low, decided.high)
    ends = {"low": low, "high": high, "equal_low": at.low, "equal_high": at.high}
    return {
        "arm": contrast.arm,
        "look": at.number,
        "seeds": at.runs,
        "difference": contrast.difference if decided is None else fraction(decided.value),
        **{key: None if end is None or math.isinf(fraction(end)) else fraction(end) for key, end in ends.items()},
        "state": contrast.outcome,
        "chance": at.chance if contrast.outcome in ("open", "undecided") else None,
    }


def furthest(rows: Sequence[Json], margin: float) -> float:
    """Return how far a chart of looks extends above and below 0. All differences and the latest intervals fit."""
    latest = {row["arm"]: row for row in rows}
    ends = [abs(row[key] or 0.0) for row in latest.values() for key in ("low", "high", "equal_low", "equal_high")]
    inside = max(margin, *(abs(row["difference"]) for row in rows), *ends)
    longest = max(abs(row[key] or 0.0) for row in rows for key in ("low", "high"))
    return float(1.08 * min(ROOM * inside, max(inside, longest)))


def looks_section(comparison: Comparison) -> Section:
    """Return a section with a table of each question's state at each look."""
    if not (measured := look_rows(comparison)):
        return Section("Looks")
    plan = comparison.course.followed
    metric = looks_metric(plan)
    line = (
        f"Seeds: per arm. The interval holds at all looks at once; the interval for equality must lie within "
        f"± {margin_text(plan)}. Chance: of a verdict by {plan.most} seeds, given the data so far."
    )
    columns: dict[str, Callable[[Json], str]] = {
        "arm": lambda row: row["arm"],
        "look": lambda row: str(row["look"]),
        "seeds": lambda row: str(row["seeds"]),
        f"{metric.label} difference": lambda row: metric.text(row["difference"], sign=True),
        "interval": lambda row: format_interval(row["low"], row["high"], metric),
        "for equality": lambda row: format_interval(row["equal_low"], row["equal_high"], metric),
        "state": lambda row: row["state"],
        "chance": lambda row: "NA" if row["chance"] is None else f"{100 * row['chance']:.0f} %",
    }
    return tabulate("Looks", measured, columns, [line])


def margin_text(plan: VerdictPlan) -> str:
    """Format a plan's equivalence margin with its unit, as in "2 points"."""
    return SCALES[plan.scale].margin(plan.margin, find_metric(plan.metric))


def shown_margin(plan: VerdictPlan) -> float:
    """Return a plan's equivalence margin in the unit that `look_rows` uses."""
    return SCALES[plan.scale].fraction(plan.margin)


def looks_metric(plan: VerdictPlan) -> Metric:
    """Return the metric that formats values in the unit that `look_rows` uses."""
    return SCALES[plan.scale].metric(find_metric(plan.metric))


def plan_text(plan: VerdictPlan) -> str:
    """Describe a plan in one sentence: margin, α, number of questions and looks."""
    looks = ", ".join(map(str, plan.looks))
    family = f" over {len(plan.contrasts)} questions" if len(plan.contrasts) > 1 else ""
    return f"Plan: margin {margin_text(plan)}, α = {plan.alpha:g}{family}, looks at {looks} seeds of each open arm."


def spent_by(comparison: Comparison) -> Spent | None:
    """Return the cost of a comparison's planned looks; None if there is no plan."""
    course = comparison.course
    return None if course.plan is None else spent(course.plan, course, comparison.arms)


def plan_row(comparison: Comparison) -> Json | None:
    """Return the plan as JSON, with names in place of the arms' configs; None if there is no plan."""
    plan = comparison.course.plan
    return None if plan is None else {**plan.as_json(), "arms": [arm.name for arm in plan.arms]}


def cost_section(comparison: Comparison) -> Section:
    """Return a section that compares the plan's cost with the cost of a fixed number of seeds."""
    if (cost := spent_by(comparison)) is None:
        return Section("Cost")
    lines = [
        plan_text(cost.plan),
        f"Runs used: {cost.runs}; {cost.plan.most} seeds per arm would take {cost.fixed}.",
        _describe_hours(cost),
        f"Runs saved{_describe_certainty(comparison)}: {cost.saved}{_describe_saving(cost)}.",
        f"Runs taken over from other sweeps: {_describe_taken_over(cost)}.",
    ]
    return Section("Cost", lines=lines)


def cost_lines(comparison: Comparison) -> list[str]:
    """Return a sentence on the plan and its cost; empty if there is no plan."""
    if (cost := spent_by(comparison)) is None:
        return []
    trained = "" if cost.hours is None else f", {hours(cost.hours)} of training"
    taken = f", {sum(cost.taken_over.values())} of them taken over" if cost.taken_over else ""
    saved = f"{cost.saved} of {cost.fixed} saved{_describe_certainty(comparison)}{_describe_saving(cost)}"
    return [f"{plan_text(cost.plan)} {cost.runs} runs used{taken}{trained}; {saved}."]


def hours(value: float) -> str:
    """Format a number of hours: in minutes if it is below 1, and without decimals if it is 10 or more."""
    return f"{value:.2g} h" if 1 <= value < 10 else f"{value:,.0f} h" if value >= 10 else f"{60 * value:.2g} min"


def _describe_hours(cost: Spent) -> str:
    if cost.hours is None:
        return "Training: no run recorded its time."
    runs = "1 run" if cost.untimed == 1 else f"{cost.untimed} runs"
    untimed = f", not counting {runs} without a recorded time" if cost.untimed else ""
    return f"Training: {hours(cost.hours)}{untimed}."


def _describe_saving(cost: Spent) -> str:
    return f", about {hours(cost.hours_saved)} of training" if cost.saved and cost.hours_saved is not None else ""


def _describe_certainty(comparison: Comparison) -> str:
    return "" if comparison.course.ended else " for certain so far"


def _describe_taken_over(cost: Spent) -> str:
    if not cost.taken_over:
        return "none"
    sweeps = ", ".join(f"{count} from {sweep}" for sweep, count in cost.taken_over.items())
    return f"{sweeps} ({hours(cost.hours_taken_over)} of the training above)"

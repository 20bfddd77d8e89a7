"""Where each arm stands after a look, for programs that do not compare: a file of the sweep."""

import math
from collections.abc import Sequence
from pathlib import Path

from asr_ablations.comparison.contrast import Contrast
from asr_ablations.comparison.course import Course
from asr_ablations.runs.layout import STANDING
from asr_ablations.runs.verdict_plan import VerdictPlan
from asr_ablations.tools.files import Json, write_json


def write_standing(folder: Path, plan: VerdictPlan, course: Course) -> None:
    """Write STANDING into the sweep's folder: the folders of runs may belong to other sweeps too."""
    write_json(folder / STANDING, standing(plan, course))


def standing(plan: VerdictPlan, course: Course) -> Json:
    """What STANDING holds: by arm its latest look, its seeds, its state, and its questions, rates as fractions.

    The state of an arm is the outcome of its question. The baseline, and an arm of several questions, are open or
    decided.
    """
    return {
        "look": len(course.looks),
        "looks": len(plan.looks),
        "ended": course.ended,
        "arms": {arm.name: _arm(arm.name, plan, course) for arm in plan.arms},
    }


def _arm(name: str, plan: VerdictPlan, course: Course) -> Json:
    own = [contrast for contrast in course.contrasts if name in contrast.question.weights]
    numbers = [contrast.look.number for contrast in own if contrast.look is not None]
    return {
        "look": max(numbers, default=0),
        "seeds": course.runs(plan)[name],
        "state": _state(name, own),
        "questions": {contrast.arm: _question(contrast) for contrast in own},
    }


def _state(name: str, contrasts: Sequence[Contrast]) -> str:
    if len(contrasts) == 1 and contrasts[0].arm == name:
        return contrasts[0].outcome
    return "open" if not contrasts or any(contrast.outcome == "open" for contrast in contrasts) else "decided"


def _question(contrast: Contrast) -> Json:
    ends = {"low": contrast.low, "high": contrast.high}
    return {
        "state": contrast.outcome,
        "difference": contrast.difference,
        **{key: end if end is not None and math.isfinite(end) else None for key, end in ends.items()},
    }

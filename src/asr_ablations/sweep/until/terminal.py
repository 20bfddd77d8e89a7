"""Print the messages of an ablation that adds seeds."""

import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap

from rich.table import Table
from rich.text import Text

from asr_ablations.runs.status import fate_of
from asr_ablations.sweep.arm import FrozenArm
from asr_ablations.sweep.live import label_arms
from asr_ablations.sweep.until.planning import Planned
from asr_ablations.tools.files import typed
from asr_verdicts.metrics import format_interval
from asr_verdicts.plan import VerdictPlan
from asr_verdicts.planned_looks import Course, PlannedLook
from asr_verdicts.terminal import VERDICT_STYLES, console
from asr_verdicts.verdict import Verdict


def print_plan(lines: Sequence[str], reused: bool) -> None:
    """Print the frozen plan. reused: whether an earlier command froze it."""
    terminal = console()
    for number, line in enumerate(lines):
        head = "      " if number else "plan, as it was frozen: " if reused else "plan: "
        terminal.print(f"{head}{line}", markup=False, soft_wrap=True)


def print_look(look: PlannedLook, planned: Planned, course: Course) -> None:
    """Print the state of each question after a look, and the number of runs so far."""
    plan, metric, terminal = planned.plan, planned.metric, console()
    title = f"look {look.number} of {len(plan.looks)}: {look.runs} seeds, {metric.label} on {plan.set}"
    table = Table(title=title, title_justify="left")
    for column in ("arm", "difference", "interval", "state", "next"):
        table.add_column(column, justify="right" if column in ("difference", "interval") else "left", overflow="fold")
    for verdict in look.verdicts:
        difference = metric.text(verdict.difference, sign=True)
        interval = format_interval(verdict.low, verdict.high, metric, otherwise="")
        state = Text(verdict.outcome, style=VERDICT_STYLES.get(verdict.outcome, ""))
        table.add_row(Text(verdict.arm), difference, interval, state, _next(verdict, plan))
    terminal.print(table)
    runs = Course(plan, looks=course.looks[: course.looks.index(look) + 1]).runs(plan)
    open_ = {arm for verdict in look.verdicts if verdict.outcome == "open" for arm in verdict.question.weights}
    saved = sum(plan.most - count for arm, count in runs.items() if arm not in open_)
    line = f"{sum(runs.values())} runs so far; {saved} of {plan.most * len(runs)} saved for certain"
    terminal.print(line, soft_wrap=True)


def _next(contrast: Verdict, plan: VerdictPlan) -> str:
    look = contrast.look
    assert look is not None
    if contrast.outcome == "open":
        chance = "" if look.chance is None else f"; chance of a verdict {100 * look.chance:.0f} %"
        missing = plan.looks[look.number] - look.runs
        return f"{missing} more seed{'' if missing == 1 else 's'}{chance}"
    if contrast.outcome == "undecided" and look.number < look.of:
        return f"given up: chance of a verdict {100 * (look.chance or 0.0):.0f} %"
    return ""


def print_end(verdicts: Sequence[Verdict], course: Course, planned: Planned, folder: Path) -> None:
    """Print the verdicts and their cost in runs."""
    for verdict in verdicts:
        for line in wrap(verdict.sentence, 100, subsequent_indent="  ", break_on_hyphens=False):
            console().print(Text(line, style=VERDICT_STYLES.get(verdict.outcome, "")), soft_wrap=True)
    runs = sum(course.runs(planned.plan).values())
    whole = planned.plan.most * len(planned.plan.arms)
    print(f"{runs} runs; {planned.plan.most} seeds of every arm would have been {whole}")
    print(f"{typed('compare', folder)} shows the details")


def print_taken(taken: Sequence[tuple[FrozenArm, Path]]) -> None:
    """Name the runs that were taken over from other sweeps."""
    names = label_arms([arm.overrides for arm, _ in taken])
    for name, (_, other) in zip(names, taken, strict=True):
        print(f"taken over: {name}, from {other.parent.name}/{other.name}")


def print_failures(lacking: Sequence[FrozenArm], retries: int) -> None:
    """Print the runs that the next look waits for."""
    runs = f"{len(lacking)} runs that failed {1 + retries} times"
    print(f"the look waits for {runs}; the same command runs them again", file=sys.stderr)
    for name, arm in zip(label_arms([arm.overrides for arm in lacking]), lacking, strict=True):
        print(f"  {name}: {fate_of(arm.folder).reason}\n    {arm.log}", file=sys.stderr)


def print_nothing(folders: Sequence[Path]) -> None:
    """Print nothing between two looks, in place of a sweep's closing table."""

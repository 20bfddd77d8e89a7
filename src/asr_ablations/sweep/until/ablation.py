"""Run a sweep that adds seeds, round by round, until every question has a verdict."""

import math
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from textwrap import wrap
from typing import cast

from omegaconf import DictConfig, OmegaConf
from rich.text import Text

from asr_ablations.comparison.folders import planned_arms
from asr_ablations.components.until.verdict import UntilVerdict
from asr_ablations.config.build import build
from asr_ablations.config.plain_keys import check
from asr_ablations.runs.identity import BEHAVIOUR, content
from asr_ablations.runs.layout import KEPT_ASIDE, STANDING, STATUS, runs_in
from asr_ablations.runs.reader import UnreadableFileError, read_config, read_environment
from asr_ablations.runs.records import load
from asr_ablations.runs.status import RESULTS, fate_of
from asr_ablations.runs.sweep_history import changes, looks, read_plan, searched_arms
from asr_ablations.sweep.arm import FrozenArm
from asr_ablations.sweep.launch import ArmsFailedError, freeze
from asr_ablations.sweep.live import label_arms, make_table
from asr_ablations.sweep.manifest import freeze_plan, keep_declaration, write_manifest
from asr_ablations.sweep.plan import measure_arms, show_plan
from asr_ablations.sweep.preflight import find_differences, format_differences
from asr_ablations.sweep.this_machine import Slots
from asr_ablations.sweep.until.planning import ArmConfigs, Planned, forecast, make_plan, never_trained
from asr_ablations.tools.files import typed
from asr_verdicts.arms import Arm
from asr_verdicts.config import differences
from asr_verdicts.files import folder_name, write_json
from asr_verdicts.metrics import format_interval
from asr_verdicts.plan import VerdictPlan
from asr_verdicts.planned_looks import Course, PlannedLook, follow
from asr_verdicts.record import Records
from asr_verdicts.sentences import write_sentence
from asr_verdicts.terminal import VERDICT_STYLES, console
from asr_verdicts.verdict import Verdict

Start = Callable[[Sequence[FrozenArm]], object]
"""Function that runs arms in parallel and waits for them."""
Compose = Callable[[Sequence[str]], DictConfig]
"""Function that composes a config from overrides, and resolves it."""
NOT_OF_ARMS = ("seed=", "until=", "until.", "force=", "plan=")
"""Prefixes of overrides that do not distinguish arms."""


def run_until(
    runs: Sequence[Sequence[str]],
    compose: Compose,
    start: Start,
    slots: Callable[[Sequence[FrozenArm]], Slots],
    metadata: dict[str, object],
) -> None:
    """Run a sweep's plan to its end, or only print the plan if plan=true.

    runs: overrides of each run in the sweep's command. slots: function that returns this machine's slots for arms.
    metadata: how the sweep was started, for the manifest. Raise ArmsFailedError if runs that a look needs have failed.
    """
    arms, named = arms_and_seeds(runs)
    first = compose(runs[0])
    check(first)
    wanted: UntilVerdict = build(first.until)()
    wanted.stated_margin()  # refuses a missing margin before the slow work starts
    seeds: Sequence[int] = named or [int(first.seed)]
    first_seed, as_trained = seeds[0], _plain(compose)

    @cache
    def hours_per_run() -> float:
        """Return the mean hours that one run of an arm adds to the sweep on this machine."""
        frozen = freeze([as_trained([*words, f"seed={first_seed}"]) for words in arms])
        places = slots(frozen)
        costs = measure_arms(frozen, places.threads(len(frozen)))
        return sum(cost.seconds for cost in costs) / len(costs) / 3600 / places.jobs

    def plan_in(folder: Path, seeds: Sequence[int], compose: Compose) -> Planned:
        """Make a folder's plan. If it is frozen, do not measure the hours per run again, which could change it."""
        frozen = read_plan(folder)
        if wanted.hours is None:
            most = wanted.most_seeds(len(arms), None)
        elif frozen is not None and frozen.hours == wanted.hours:
            most = min(frozen.most, wanted.most_seeds(len(arms), None))
        else:
            most = wanted.most_seeds(len(arms), hours_per_run())
        pairs = [[compose([*words, f"seed={seed}"]) for seed in (seeds[0], seeds[0] + 1)] for words in arms]
        variants = [ArmConfigs(list(words), *pair) for words, pair in zip(arms, pairs, strict=True)]
        return make_plan(variants, seeds, most, wanted)

    folder = Path(str(first.outputs)) / folder_name(str(first.sweep))
    if first.force:
        folder, seeds = _choose_folder(folder, seeds, lambda candidate, fresh: plan_in(candidate, fresh, as_trained))
        as_trained = _plain(compose, folder.name)
    planned = plan_in(folder, seeds, as_trained)
    firsts = [as_trained([*words, f"seed={seeds[0]}"]) for words in arms]
    left_out = never_trained(seeds, planned.plan)
    lines = [*forecast(planned, firsts[0], folder.parent), *left_out, *format_differences(find_differences(firsts))]
    if first.plan:
        print_plan(lines, reused=False)
        frozen_firsts = freeze(firsts)
        places = slots(frozen_firsts)
        show_plan(frozen_firsts, places.jobs, places.threads(len(frozen_firsts)))
        print(f"each arm takes {planned.plan.looks[0]} to {planned.plan.most} runs")
        return
    new = replace(planned.plan, seen=_count_seen_runs(folder), notes=lines)
    frozen = freeze_plan(folder, new)
    print_plan(frozen.notes, reused=frozen is not new)
    planned = replace(planned, plan=replace(planned.plan, made=frozen.made, seen=frozen.seen, notes=frozen.notes))
    keep_declaration(folder, firsts[0])
    planned_runs = run_rounds(planned, folder, as_trained, start, metadata, wanted)
    course = follow(planned.plan, planned_runs, planned.questions)
    verdicts = [replace(verdict, sentence=write_sentence(verdict, planned_runs, "")) for verdict in course.verdicts]
    print_end(verdicts, course, planned, folder)


def arms_and_seeds(runs: Sequence[Sequence[str]]) -> tuple[list[list[str]], list[int]]:
    """Return the overrides of each arm, without the seed, and the seeds, both in the order of the runs."""
    arms = dict.fromkeys(tuple(word for word in words if not word.startswith(NOT_OF_ARMS)) for words in runs)
    seeds = dict.fromkeys(word for words in runs for word in words if word.startswith("seed="))
    return [list(words) for words in arms], [int(word.removeprefix("seed=")) for word in seeds]


def _plain(compose: Compose, sweep: str | None = None) -> Compose:
    """Wrap `compose` to set force and plan to false in its configs. sweep: new name of the sweep; None keeps it."""

    def composed(words: Sequence[str]) -> DictConfig:
        cfg = compose(words)
        cfg.force, cfg.plan = False, False
        if sweep is not None:
            cfg.sweep = sweep
        return cfg

    return composed


def _choose_folder(
    folder: Path, seeds: Sequence[int], plan_in: Callable[[Path, Sequence[int]], Planned]
) -> tuple[Path, Sequence[int]]:
    """Return the first of <folder>, <folder>.2, … without a different plan, and seeds that no earlier plan has used."""
    used: set[int] = set()
    candidate, number = folder, 1
    while True:
        fresh = seeds if not used & {*seeds} else [max(used) + 1]
        frozen = read_plan(candidate)
        if frozen is None or not runs_in(candidate) or not changes(frozen, plan_in(candidate, fresh).plan):
            return candidate, fresh
        used |= {*frozen.seeds}
        number += 1
        candidate = folder.with_name(f"{folder.name}.{number}")


def _count_seen_runs(folder: Path) -> int:
    """Return the number of runs with a result if the sweep was compared before it had a plan, else 0."""
    ended = [run for run in runs_in(folder) if fate_of(run).state in RESULTS]
    return len(ended) if ended and looks(folder) else 0


def run_rounds(
    planned: Planned, folder: Path, compose: Compose, start: Start, metadata: dict[str, object], wanted: UntilVerdict
) -> list[Arm]:
    """Add runs until the plan has ended, and return its arms with their runs.

    Raise ArmsFailedError if runs that a look needs fail in all attempts.
    """
    plan, printed = planned.plan, 0
    while True:
        records = load([folder]) if any(folder.glob("*/status.json")) else Records([])
        planned_runs, _ = planned_arms(plan, records)
        course = follow(plan, planned_runs, planned.questions, describe=False)
        for look in course.looks[printed:]:
            print_look(look, planned, course)
        printed = len(course.looks)
        if course.looks:  # written to the sweep folder, because run folders may belong to other sweeps
            write_json(folder / STANDING, standing(plan, course))
        if course.ended:
            return planned_runs
        # ordered by seed, so that all arms have the same seeds if the sweep is stopped early
        missing = [
            compose([*arm.overrides, f"seed={seed}"])
            for seed in plan.seeds
            for arm in plan.arms
            if seed in course.missing.get(arm.name, ())
        ]
        arms = freeze(missing, cast(list[str], metadata["overrides"]))
        write_manifest(folder, arms, metadata)
        taken = [(arm, other) for arm in arms if wanted.share and (other := take_over(arm)) is not None]
        for name, (_, other) in zip(label_arms([arm.overrides for arm, _ in taken]), taken, strict=True):
            print(f"taken over: {name}, from {other.parent.name}/{other.name}")
        for _ in range(1 + wanted.retries):
            if lacking := _without_result(arms):
                start(lacking)
        if lacking := _without_result(arms):
            print_failures(lacking, wanted.retries)
            raise ArmsFailedError(1)


def _without_result(arms: Sequence[FrozenArm]) -> list[FrozenArm]:
    return [arm for arm in arms if fate_of(arm.folder).state not in RESULTS]


def standing(plan: VerdictPlan, course: Course) -> dict[str, object]:
    """Return the contents of the file STANDING: each arm's latest look, number of seeds, state and questions."""
    by_arm = {arm.name: [v for v in course.verdicts if arm.name in v.question.weights] for arm in plan.arms}
    return {
        "look": len(course.looks),
        "looks": len(plan.looks),
        "ended": course.ended,
        "arms": {
            name: {
                "look": max((verdict.look.number for verdict in verdicts if verdict.look is not None), default=0),
                "seeds": course.runs(plan)[name],
                "state": _state(name, verdicts),
                "questions": {verdict.arm: _question(verdict) for verdict in verdicts},
            }
            for name, verdicts in by_arm.items()
        },
    }


def _state(name: str, verdicts: Sequence[Verdict]) -> str:
    outcomes = [verdict.outcome for verdict in verdicts]
    if len(verdicts) == 1 and verdicts[0].arm == name:
        return outcomes[0]
    return "open" if not outcomes or "open" in outcomes else "decided"


def _question(verdict: Verdict) -> dict[str, object]:
    ends = {"low": verdict.low, "high": verdict.high}
    finite = {key: end if end is not None and math.isfinite(end) else None for key, end in ends.items()}
    return {"state": verdict.outcome, "difference": verdict.difference, **finite}


def take_over(arm: FrozenArm) -> Path | None:
    """Link a new arm's folder to a finished run of the same config in another sweep, and return that run's folder."""
    if arm.folder.exists():
        return None
    arm.folder.unlink(missing_ok=True)  # a link to a run that was deleted
    for folder in sorted(arm.folder.parent.parent.glob(f"*/*-{arm.id}/{STATUS}")):
        other = folder.parent.resolve()
        if not KEPT_ASIDE.search(other.name) and _is_same(other, arm):
            arm.folder.parent.mkdir(parents=True, exist_ok=True)
            arm.folder.symlink_to(os.path.relpath(other, arm.folder.parent.resolve()), target_is_directory=True)
            return other
    return None


def _is_same(other: Path, arm: FrozenArm) -> bool:
    """Return whether a run has a result and the arm's config, and is not from a search, which selects lucky runs."""
    try:
        environment = read_environment(other)
        return (
            fate_of(other).state in RESULTS
            and (environment.id, environment.behaviour) == (arm.id, BEHAVIOUR)
            and arm.id not in searched_arms(other.parent)
            and not differences(content(OmegaConf.create(read_config(other))), content(arm.cfg))
        )
    except (FileNotFoundError, UnreadableFileError):
        return False


def print_plan(lines: Sequence[str], reused: bool) -> None:
    """Print the lines that describe a plan. reused: whether an earlier command froze the plan."""
    terminal = console()
    for number, line in enumerate(lines):
        head = "      " if number else "plan (frozen earlier): " if reused else "plan: "
        terminal.print(f"{head}{line}", markup=False, soft_wrap=True)


def print_look(look: PlannedLook, planned: Planned, course: Course) -> None:
    """Print the state of each question after a planned look, and the number of runs so far."""
    plan, metric, terminal = planned.plan, planned.metric, console()
    title = f"look {look.number} of {len(plan.looks)}: {look.runs} seeds, {metric.label} on {plan.set}"
    table = make_table(title, ["arm", "difference", "interval", "state", "next"], left=["arm", "state", "next"])
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
    """Return what happens next with an open question, or why it was given up; "" if the question has a verdict."""
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
    """Print the verdicts, the number of runs, and how many runs the plan would have needed without early verdicts."""
    for verdict in verdicts:
        for line in wrap(verdict.sentence, 100, subsequent_indent="  ", break_on_hyphens=False):
            console().print(Text(line, style=VERDICT_STYLES.get(verdict.outcome, "")), soft_wrap=True)
    runs = sum(course.runs(planned.plan).values())
    whole = planned.plan.most * len(planned.plan.arms)
    print(f"{runs} runs; {planned.plan.most} seeds of every arm would have taken {whole}")
    print(f"{typed('compare', folder)} shows the details")


def print_failures(lacking: Sequence[FrozenArm], retries: int) -> None:
    """Print the failed runs for which the next look waits, with their reasons and log files."""
    runs = f"{len(lacking)} runs that failed {1 + retries} times"
    print(f"the look waits for {runs}; the same command runs them again", file=sys.stderr)
    for name, arm in zip(label_arms([arm.overrides for arm in lacking]), lacking, strict=True):
        print(f"  {name}: {fate_of(arm.folder).reason}\n    {arm.log}", file=sys.stderr)


def print_nothing(folders: Sequence[Path]) -> None:
    """Print nothing after each round, in place of the table of arms that other sweeps print."""

"""An ablation from the overrides of its runs to its verdicts."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from omegaconf import DictConfig

from asr_ablations.comparison.layouts import planned_arms
from asr_ablations.components.until.verdict import UntilVerdict
from asr_ablations.config.build import build
from asr_ablations.config.plain_keys import check
from asr_ablations.runs.layout import runs_in
from asr_ablations.runs.records import load
from asr_ablations.runs.status import RESULTS, fate_of
from asr_ablations.runs.sweep_history import changes, looks, read_plan
from asr_ablations.sweep.arm import FrozenArm, forget
from asr_ablations.sweep.differing_keys import difference_lines, differences_of
from asr_ablations.sweep.gpu_slots import Slots
from asr_ablations.sweep.launch import freeze
from asr_ablations.sweep.manifest import freeze_plan, keep_declaration
from asr_ablations.sweep.plan import measure_arms, show_plan
from asr_ablations.sweep.until.ablation import Ablation, Compose, Start
from asr_ablations.sweep.until.planning import ArmConfigs, Planned, forecast, make_plan, never_trained
from asr_ablations.sweep.until.terminal import print_end, print_plan
from asr_verdicts.files import folder_name
from asr_verdicts.planned_looks import follow
from asr_verdicts.sentences import write_sentence


@dataclass(frozen=True)
class Sweep:
    """The sweep as Hydra's sweeper hands it over. runs: the overrides of its runs; slots: for arms on this machine;
    metadata: how the sweep was started.
    """

    runs: Sequence[Sequence[str]]
    compose: Compose
    start: Start
    slots: Callable[[Sequence[FrozenArm]], Slots]
    metadata: dict[str, object]


def run_until(sweep: Sweep) -> None:
    """Run the plan of a sweep to its end, or print it (plan=true). Raises ArmsFailedError where a look lacks runs."""
    arms, named = arms_and_seeds(sweep.runs)
    first = sweep.compose(sweep.runs[0])
    check(first)
    wanted: UntilVerdict = build(first.until)()
    wanted.stated_margin()  # before anything that takes time
    seeds: Sequence[int] = named or [int(first.seed)]
    compose = _plain(sweep.compose)
    budget = _Budget(wanted, len(arms), lambda: _hours_per_run(sweep, arms, named or [int(first.seed)], compose))

    def plan_in(folder: Path, seeds: Sequence[int], compose: Compose) -> Planned:
        return make_plan([_variant(words, seeds, compose) for words in arms], seeds, budget.seeds_in(folder), wanted)

    folder = Path(str(first.outputs)) / folder_name(str(first.sweep))
    if first.force:
        folder, seeds = _beside(folder, seeds, lambda candidate, fresh: plan_in(candidate, fresh, compose))
        compose = _plain(sweep.compose, f"{folder.name}")
    planned = plan_in(folder, seeds, compose)
    config = compose([*arms[0], f"seed={seeds[0]}"])
    firsts = [compose([*words, f"seed={seeds[0]}"]) for words in arms]
    left_out = never_trained(seeds, planned.plan)
    lines = [*forecast(planned, config, folder.parent), *left_out, *difference_lines(differences_of(firsts))]
    if first.plan:
        print_plan(lines, reused=False)
        frozen_firsts = freeze(firsts)
        slots = sweep.slots(frozen_firsts)
        show_plan(frozen_firsts, slots.jobs, slots.threads(len(frozen_firsts)))
        forget(frozen_firsts)
        print(f"of each arm at least {planned.plan.looks[0]} runs, and at most {planned.plan.most}")
        return
    new = replace(planned.plan, seen=_seen(folder), notes=lines)
    frozen = freeze_plan(folder, new)
    print_plan(frozen.notes, reused=frozen is not new)
    planned = replace(planned, plan=replace(planned.plan, made=frozen.made, seen=frozen.seen, notes=frozen.notes))
    keep_declaration(folder, config)
    Ablation(planned, folder, compose, sweep.start, sweep.metadata, wanted.retries, wanted.share).run()
    _print_verdicts(planned, folder)


class _Budget:
    """The most seeds of an arm. A run's hours are measured at most once, and not where they were when a plan was made:
    another measurement would end in another plan.
    """

    def __init__(self, wanted: UntilVerdict, arms: int, hours_per_run: Callable[[], float]) -> None:
        self.wanted, self.arms, self.hours_per_run = wanted, arms, cache(hours_per_run)

    def seeds_in(self, folder: Path) -> int:
        """folder: of the sweep, which may have a plan."""
        frozen = read_plan(folder)
        if self.wanted.hours is None:
            return self.wanted.most_seeds(self.arms, None)
        if frozen is not None and frozen.hours == self.wanted.hours:
            return min(frozen.most, self.wanted.most_seeds(self.arms, None))
        return self.wanted.most_seeds(self.arms, self.hours_per_run())


def arms_and_seeds(runs: Sequence[Sequence[str]]) -> tuple[list[list[str]], list[int]]:
    """The overrides of the arms without seeds, and the seeds that the sweep names, both in the order of the runs."""
    arms: dict[tuple[str, ...], None] = {}
    seeds: dict[int, None] = {}
    for words in runs:
        arms[tuple(word for word in words if not word.startswith(("seed=", "until=", "until.", "force=", "plan=")))] = (
            None
        )
        seeds |= {int(word.removeprefix("seed=")): None for word in words if word.startswith("seed=")}
    return [list(words) for words in arms], list(seeds)


def _plain(compose: Compose, sweep: str | None = None) -> Compose:
    """Composes arms as they are trained. sweep: its name, if it is another than the command's."""

    def composed(words: Sequence[str]) -> DictConfig:
        cfg = compose(words)
        cfg.force, cfg.plan = False, False
        if sweep is not None:
            cfg.sweep = sweep
        return cfg

    return composed


def _variant(words: Sequence[str], seeds: Sequence[int], compose: Compose) -> ArmConfigs:
    first, second = (compose([*words, f"seed={seed}"]) for seed in (seeds[0], seeds[0] + 1))
    return ArmConfigs(list(words), first, second)


def _hours_per_run(sweep: Sweep, arms: Sequence[Sequence[str]], seeds: Sequence[int], compose: Compose) -> float:
    """The mean over the arms of the hours that a run keeps this machine busy."""
    frozen = freeze([compose([*words, f"seed={seeds[0]}"]) for words in arms])
    slots = sweep.slots(frozen)
    costs = measure_arms(frozen, slots.threads(len(frozen)))
    return sum(cost.seconds for cost in costs) / len(costs) / 3600 / slots.jobs


def _beside(
    folder: Path, seeds: Sequence[int], plan_in: Callable[[Path, Sequence[int]], Planned]
) -> tuple[Path, Sequence[int]]:
    """The folder of a plan that is begun although there is another, <folder>.2, .3, …, and its first seeds: those that
    no earlier plan has used, since its results are known. A plan that was begun this way goes on.
    """
    used: set[int] = set()
    numbered = (folder.with_name(f"{folder.name}.{number}") for number in itertools.count(2))
    for candidate in itertools.chain([folder], numbered):
        fresh = seeds if not used & {*seeds} else [max(used) + 1]
        frozen = read_plan(candidate)
        if frozen is None or not runs_in(candidate) or not changes(frozen, plan_in(candidate, fresh).plan):
            return candidate, fresh
        used |= {*frozen.seeds}
    raise AssertionError("there is always another number")


def _seen(folder: Path) -> int:
    """Runs with a result in the folder of a sweep that was compared before it had a plan."""
    ended = [run for run in runs_in(folder) if fate_of(run).state in RESULTS]
    return len(ended) if ended and looks(folder) else 0


def _print_verdicts(planned: Planned, folder: Path) -> None:
    arms, _ = planned_arms(planned.plan, load([folder]))
    course = follow(planned.plan, arms, planned.questions)
    print_end(
        [replace(each, sentence=write_sentence(each, arms, "")) for each in course.verdicts], course, planned, folder
    )

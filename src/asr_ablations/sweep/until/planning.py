"""Make the plan of a sweep with until=verdict from the configs of its arms, and forecast the seeds that it needs."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from asr_ablations.comparison.folders import lay_out_list
from asr_ablations.comparison.seed_noise import measure_seed_noise, seeds_to_equal, seeds_to_find
from asr_ablations.components.until.verdict import UntilVerdict
from asr_ablations.config.build import build
from asr_ablations.data.corpus import Corpus
from asr_ablations.data.description import content_hash
from asr_ablations.runs.identity import content
from asr_ablations.runs.sweep_history import arm_content
from asr_ablations.sweep.preflight import ComposedRun, plain
from asr_ablations.tools.machine import iso
from asr_verdicts.arms import find_baseline
from asr_verdicts.config import flatten
from asr_verdicts.declaration import margin_on
from asr_verdicts.design import Options, lay_out_by_factor, primary_set
from asr_verdicts.errors import UsageError
from asr_verdicts.metrics import Metric, check_comparable, find_metric
from asr_verdicts.plan import PlannedArm, VerdictPlan
from asr_verdicts.questions import questions
from asr_verdicts.scales import RELATIVE, SCALES
from asr_verdicts.statistics.seed_noise import TOTALS, SeedNoise
from asr_verdicts.verdict import Question


@dataclass(frozen=True)
class ArmConfigs:
    """An arm of a plan. overrides: the arm's overrides without the seed. first, second: its configs with two seeds."""

    overrides: list[str]
    first: DictConfig
    second: DictConfig


@dataclass(frozen=True)
class Planned:
    """A plan, the questions that it answers, and the metric of these questions."""

    plan: VerdictPlan
    questions: list[Question]
    metric: Metric


def make_plan(variants: Sequence[ArmConfigs], seeds: Sequence[int], most: int, wanted: UntilVerdict) -> Planned:
    """Make a sweep's plan. Raise UsageError if there is nothing to compare.

    seeds: seeds in the sweep's command, which the plan extends. most: maximum number of seeds per arm. wanted: the
    settings in the config group `until`.
    """
    runs = [ComposedRun(plain(variant.first), variant.overrides) for variant in variants]
    layout = lay_out_list(runs, Options()) or lay_out_by_factor(runs, Options())
    declared, arms = layout.declared, layout.arms
    baseline = find_baseline(layout.default or arms[0].name, arms)
    metric = find_metric(declared.metric or "wer")
    check_comparable(metric, runs)
    for target in declared.targets:
        metric.check_target(target)
    corpora: list[Corpus] = [build(variant.first.data) for variant in variants]  # a manifest's config has no set names
    validation = [] if metric.is_rate else [name for corpus in corpora for name in corpus.validation[:1]]
    sets = dict.fromkeys([*validation, *(name for corpus in corpora for name in corpus.test)])
    primary = primary_set(declared.set, list(sets))
    asked = questions(arms, baseline, layout.factor, declared.contrasts)
    if not asked:
        raise UsageError("until=verdict: there is only one arm; expected two or more, one of them the baseline")
    if not primary:
        raise UsageError("until=verdict: the arms have no test set; expected one in data.test, or metric=loss")
    margin = wanted.stated_margin()
    scale = RELATIVE if str(margin).endswith("%") and not declared.margin else declared.scale
    belongs = _belonging_to_seeds(variants)
    looks = wanted.look_seeds(most)
    plan = VerdictPlan(
        arms=[PlannedArm(arm.levels, arm.runs[0].overrides, arm_content(arm.runs[0].config, belongs)) for arm in arms],
        baseline=baseline.name,
        metric=metric.name,
        set=primary,
        contrasts=[question.name for question in asked],
        margin=margin_on(margin, scale, metric.scale, "until.margin"),
        alpha=wanted.alpha,
        seeds=continued(seeds, looks[-1]),
        looks=looks,
        gamma=wanted.gamma,
        robust=wanted.robust,
        paired=wanted.paired,
        hopeless=wanted.hopeless,
        belongs=belongs,
        made=iso(time.time()),
        scale=scale.name,
        failed=declared.failed,
        hours=wanted.hours,
    )
    return Planned(plan, asked, metric)


def continued(seeds: Sequence[int], count: int) -> list[int]:
    """Return the first `count` seeds. If there are fewer, add seeds after the largest."""
    following = range(max(seeds) + 1, max(seeds) + 1 + max(0, count - len(seeds)))
    return [*list(seeds)[:count], *following]


def never_trained(seeds: Sequence[int], plan: VerdictPlan) -> list[str]:
    """Return a note about seeds in the sweep's command that the plan does not use; empty if it uses all of them."""
    left = ",".join(str(seed) for seed in seeds if seed not in plan.seeds)
    most = f"the plan has at most {plan.most} seeds per arm"
    line = f"seed={left}: never trained, because {most}; until.seeds={len(seeds)} takes all named seeds"
    return [line] if left else []


def forecast(planned: Planned, cfg: DictConfig, outputs: Path) -> list[str]:
    """Describe a plan before its first run: the variation between seeds, and the number of seeds that the plan needs.

    cfg: config of any arm. outputs: folder with earlier sweeps, which show the variation between seeds.
    """
    plan, metric = planned.plan, planned.metric
    arms, scale = len(plan.arms), SCALES[plan.scale]
    margin = scale.margin(plan.margin, metric)
    head = (
        f"{arms} arms, {metric.label} on {plan.set}, margin {margin}, at most {plan.most} seeds per "
        f"arm ({arms * plan.most} runs), looks at {' '.join(map(str, plan.looks))} seeds"
    )
    noise = _noise(planned, cfg, outputs)
    if noise is None:
        return [head, "no earlier sweep on this test set shows how much results vary between seeds"]
    level = plan.alpha / len(plan.contrasts)
    in_points = math.expm1(plan.margin) * noise.mean if scale is RELATIVE else plan.margin
    equal = seeds_to_equal(in_points, noise.deviation, level)
    differences = (noise.deviation * step / 20 for step in range(1, 2000))
    detectable = next(d for d in differences if seeds_to_find(d, noise.deviation, level) <= plan.most)
    lines = [
        head,
        f"seeds move the {metric.label} by {metric.text(noise.deviation)} {metric.amount} (standard deviation; "
        f"{noise.runs} earlier runs of {noise.arms} arms on this test set)",
        f"equivalence within {margin} takes about {equal} seeds per arm; {plan.most} seeds detect "
        f"{metric.text(detectable)} {metric.amount} or more",
    ]
    if equal > plan.most:
        lines.append(
            f"equal arms will mostly end undecided: use a wider margin, more seeds (until.seeds={equal}), or more "
            "test speakers if they are the limit (data.test_speakers)"
        )
    return lines


def _noise(planned: Planned, cfg: DictConfig, outputs: Path) -> SeedNoise | None:
    """Return the variation between seeds in earlier runs on the plan's test set, or None if there are none."""
    plan = planned.plan
    corpus: Corpus = build(cfg.data)
    corpus.prepare()
    utterances = corpus.read_set(plan.set)
    texts = [utterance.text for utterance in utterances]
    counts = {"words": sum(len(text.split()) for text in texts), "characters": sum(map(len, texts))}
    total = counts.get(TOTALS.get(plan.metric, ""))
    return measure_seed_noise(outputs, content_hash(utterances), plan.set, plan.metric, total)


def _belonging_to_seeds(variants: Sequence[ArmConfigs]) -> list[str]:
    """Return the dotted keys that differ between two seeds of the same arm."""
    keys = {"seed"}
    for variant in variants:
        first, second = (flatten(content(cfg)) for cfg in (variant.first, variant.second))
        keys |= {key for key in {*first, *second} if first.get(key) != second.get(key)}
    return sorted(keys)

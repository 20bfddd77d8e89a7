"""Runs compared: loaded, checked for confounds, grouped into arms, measured."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from asr_ablations.comparison.arms import find_baseline, group
from asr_ablations.comparison.circumstances import circumstance_warnings
from asr_ablations.comparison.confounds import (
    ConfoundedError,
    Differing,
    confounds,
    declared_factor,
    differing,
    find_factor,
    value_text,
    within,
)
from asr_ablations.comparison.contrasts import contrasts
from asr_ablations.comparison.literature import beside_the_literature
from asr_ablations.comparison.metrics import WER, Metric, check_comparable, find_metric, measured_sets
from asr_ablations.comparison.result import Comparison
from asr_ablations.comparison.table import table_rows
from asr_ablations.comparison.time_to_accuracy import at_equal_cost, times_to_accuracy
from asr_ablations.comparison.verdict import verdict
from asr_ablations.runs.record import RunRecord
from asr_ablations.runs.records import Records, Unfinished, load
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.files import Json


@dataclass(frozen=True)
class Options:
    """What a user can choose for a comparison. targets: of the metric, rates as fractions and losses in nats."""

    baseline: str | None = None
    allow: list[str] = field(default_factory=list)
    metric: str = "wer"
    targets: list[float] = field(default_factory=list)


def compare(folders: Sequence[Path], options: Options) -> Comparison:
    """Compare the runs in folders. Raises ConfoundedError where they differ in more than the factor."""
    return compare_runs(load(folders), options, title=" ".join(folder.resolve().name for folder in folders))


def compare_runs(records: Records, options: Options, title: str) -> Comparison:
    """Compare runs that are loaded already, from wherever. Raises as compare does."""
    metric = find_metric(options.metric)
    runs = records.runs
    if not runs:
        reasons = "; ".join(f"{run.folder.name} {run.reason}" for run in _without_rates(records))
        raise UsageError(f"{title}: no run is finished: {reasons}")
    differ, factor, overruled = _find_factor(runs, options.allow)
    arms, warnings = group(runs, factor, list(differ))
    ablation: Json = next((run.config["ablation"] for run in runs if run.config.get("ablation")), {})
    baseline = find_baseline(str(options.baseline or ablation.get("baseline") or arms[0].name), arms)
    check_comparable(metric, runs)
    sets = measured_sets(metric, runs)
    rows = table_rows(arms, sets)
    measured, uncompared = contrasts(arms, baseline, sets, options.metric)
    verdicts = [verdict(contrast) for contrast in measured]
    targets = list(map(metric.check_target, options.targets or _declared_targets(ablation, metric)))
    times, untimed = times_to_accuracy(arms, metric, targets)
    return Comparison(
        title=title,
        question=ablation.get("question"),
        source=ablation.get("source"),
        factor=factor,
        baseline=baseline.name,
        arms=arms,
        sets=sets,
        rows=rows,
        verdicts=verdicts,
        times_to_accuracy=times,
        literature=beside_the_literature(ablation, arms, baseline, rows, verdicts),
        warnings=[
            *records.warnings,
            *_overruled(overruled),
            *warnings,
            *circumstance_warnings(arms),
            *uncompared,
            *untimed,
        ],
        unfinished=_without_rates(records),
        differing={key: [value_text(value) for value in values] for key, values in differ.items()},
        metric=options.metric,
        equal_cost=at_equal_cost(arms, metric),
        allowed=list(overruled),
    )


def _without_rates(records: Records) -> list[Unfinished]:
    """The runs that no table shows, those that diverged among them."""
    diverged = [
        Unfinished(run.folder, "failed", f"diverged at step {run.diverged_at}", run.config, run.overrides)
        for run in records.diverged
    ]
    return [*diverged, *records.unfinished]


def _find_factor(runs: Sequence[RunRecord], allow: Sequence[str]) -> tuple[Differing, list[str], Differing]:
    """All differing keys, the factor, and the keys beyond it, which all were allowed. Raises ConfoundedError."""
    differ = differing(runs)
    factor = declared_factor(runs) or find_factor(runs, differ, allow)
    beyond = confounds(runs, factor, differ)
    refused = {key: values for key, values in beyond.items() if not within(key, allow)}
    if refused:
        raise ConfoundedError(factor, refused)
    return differ, factor, beyond


def _declared_targets(ablation: Json, metric: Metric) -> list[float]:
    """The targets of the sweep file, where they are of this metric."""
    targets = ablation.get("targets") or [] if metric.name == (ablation.get("metric") or WER.name) else []
    return [float(target) for target in targets]


def _overruled(beyond: Differing) -> list[str]:
    warning = "by --allow the arms also differ in {} ({}): the effect of the factor cannot be separated from it"
    return [warning.format(key, ", ".join(map(value_text, values))) for key, values in beyond.items()]

"""Runs compared: loaded, guarded, grouped into arms, measured."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asr_ablations.comparison.arms import find_baseline, group
from asr_ablations.comparison.confounds import (
    ConfoundedError,
    confounds,
    declared_factor,
    differing,
    find_factor,
    shown,
    within,
)
from asr_ablations.comparison.differences import differences
from asr_ablations.comparison.literature import beside_the_literature
from asr_ablations.comparison.result import Arm, Comparison
from asr_ablations.comparison.table import table_rows
from asr_ablations.comparison.time_to_accuracy import at_equal_cost, reached, scaling
from asr_ablations.runs.record import RunRecord
from asr_ablations.runs.records import Records, load
from asr_ablations.tools.errors import UsageError, choices

LARGEST_RATE = 2.0
"""Errors can be more than words; a target above is a percentage by mistake."""


@dataclass(frozen=True)
class Options:
    """What a comparison can be asked. targets: rates as fractions."""

    baseline: str | None = None
    allow: list[str] = field(default_factory=list)
    metric: str = "wer"
    targets: list[float] = field(default_factory=list)


def compare(folders: Sequence[Path], options: Options) -> Comparison:
    """Compare the runs of folders. Raises ConfoundedError where they differ in more than the factor."""
    return compare_runs(load(folders), options, title=" ".join(folder.resolve().name for folder in folders))


def compare_runs(found: Records, options: Options, title: str) -> Comparison:
    """The same of runs that were loaded before, wherever from."""
    if options.metric not in ("wer", "cer"):
        raise choices("metric", options.metric, "wer or cer")
    runs = found.runs
    if not runs:
        raise UsageError(f"{title}: no run is finished: {'; '.join(f'{f.name} {why}' for f, why in found.unfinished)}")
    differ, factor, overruled = _guard(runs, options.allow)
    arms, warnings = group(runs, factor, list(differ))
    ablation: dict[str, Any] = next((run.config["ablation"] for run in runs if run.config.get("ablation")), {})
    baseline = find_baseline(str(options.baseline or ablation.get("baseline") or arms[0].name), arms)
    sets = _test_sets(runs)
    rows = table_rows(arms, sets)
    against, uncompared = differences(arms, baseline, sets, options.metric)
    targets = _rates(options.targets or [float(target) for target in ablation.get("targets") or []])
    times, timeless = reached(arms, options.metric, targets)
    return Comparison(
        title=title,
        question=ablation.get("question"),
        source=ablation.get("source"),
        factor=factor,
        baseline=baseline.name,
        arms=arms,
        sets=sets,
        rows=rows,
        differences=against,
        reached=times,
        verdicts=[one.verdict for one in against],
        literature=beside_the_literature(ablation, arms, baseline, rows, against),
        warnings=[*found.warnings, *_overruled(overruled), *warnings, *_told_apart(arms), *uncompared, *timeless],
        unfinished=found.unfinished,
        differing={key: [shown(value) for value in values] for key, values in differ.items()},
        metric=options.metric,
        equal=at_equal_cost(arms, options.metric),
        scaling=scaling(arms),
        allowed=list(overruled),
    )


def _guard(
    runs: Sequence[RunRecord], allow: Sequence[str]
) -> tuple[dict[str, list[Any]], list[str], dict[str, list[Any]]]:
    """All differing keys, the factor, and those of them that were allowed beyond it. Raises ConfoundedError."""
    differ = differing(runs)
    factor = declared_factor(runs) or find_factor(runs, differ, allow)
    beyond = confounds(runs, factor, differ)
    refused = {key: values for key, values in beyond.items() if not within(key, allow)}
    if refused:
        raise ConfoundedError(factor, refused)
    return differ, factor, beyond


def _rates(targets: list[float]) -> list[float]:
    """The targets; raises UsageError for what is no rate, such as 20 for 20 %."""
    for target in targets:
        if not 0 < target <= LARGEST_RATE:
            raise choices("target", target, "a rate as a fraction: 0.2 is 20 %")
    return targets


def _overruled(beyond: dict[str, list[Any]]) -> list[str]:
    told = "by --allow the arms also differ in {} ({}): what the factor does cannot be told from it"
    return [told.format(key, ", ".join(map(shown, values))) for key, values in beyond.items()]


def _test_sets(runs: Sequence[RunRecord]) -> list[str]:
    return list(dict.fromkeys(str(name) for run in runs for name in run.summary.get("test_sets", [])))


def _told_apart(arms: Sequence[Arm]) -> list[str]:
    """Warnings where runs differ in what is no part of their config: code, versions, hardware. Also where a run is of
    several: it was interrupted, and went on elsewhere.
    """
    warnings = []
    for what, read, meaning in _CIRCUMSTANCES:
        by_value: dict[str, list[str]] = {}
        for arm in arms:
            for run in arm.runs:
                told = ", then ".join(dict.fromkeys(map(read, _environments(run))))
                by_value.setdefault(told, []).append(f"{arm.name}/{run.seed}")
        if len(by_value) > 1 or any(", then " in value for value in by_value):
            told = "; ".join(f"{value}: {', '.join(names)}" for value, names in by_value.items())
            warnings.append(f"the runs are of different {what}, {meaning} ({told})")
    return warnings


def _environments(run: RunRecord) -> list[dict[str, Any]]:
    """That in which a run began, and those in which it went on after an interruption."""
    return [run.environment, *run.environment.get("resumed", [])]


def _code(environment: dict[str, Any]) -> str:
    code = environment.get("code", {})
    diff = code.get("dirty_diff", "")
    changes = f" with changes {hashlib.sha256(diff.encode()).hexdigest()[:6]}" if diff else ""
    return f"{code.get('commit', 'unknown')[:8]}{changes}"


def _versions(environment: dict[str, Any]) -> str:
    versions = environment.get("versions", {})
    return f"torch {versions.get('torch', 'unknown')}, Python {versions.get('python', 'unknown')}"


def _hardware(environment: dict[str, Any]) -> str:
    told = environment.get("hardware", {})
    gpus = told.get("gpus", [])
    return f"{len(gpus)} × {gpus[0]}" if gpus else f"{told.get('processor', 'unknown')}, {told.get('cores', '?')} cores"


_CIRCUMSTANCES = (
    ("code", _code, "which may change results"),
    ("versions", _versions, "which may change results"),
    ("hardware", _hardware, "so their times cannot be compared"),
)

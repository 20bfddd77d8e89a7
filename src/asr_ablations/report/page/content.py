"""The content of the page, as plain values for JSON."""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
from numpy.typing import ArrayLike

from asr_ablations.comparison.derived_tables import hyperparameters
from asr_ablations.comparison.time_to_accuracy import at_equal_cost, relative_time, times_to_accuracy
from asr_ablations.comparison.training_times import EpochTimes, Scaling, epoch_times, scaling
from asr_ablations.comparison.validation_costs import TimeToAccuracy, ratio_text
from asr_ablations.report.curves import AXES, curve, metric_names, throughput_curve
from asr_ablations.report.figures.utilisation import gpu_lines
from asr_ablations.report.page.utterances import worst
from asr_ablations.report.training_columns import TRAINING_COLUMNS
from asr_ablations.runs.metrics_files import COLUMNS, TEXTS, by_second, read_utilisation
from asr_ablations.runs.reader import read_model
from asr_ablations.tools.typed_json import as_json
from asr_verdicts.arms import Arm
from asr_verdicts.comparison import Comparison
from asr_verdicts.config import flatten
from asr_verdicts.metrics import METRICS
from asr_verdicts.one_arm import lone_rates
from asr_verdicts.record import Record
from asr_verdicts.report.answer import answer_rows, effect_rows, evidence_lines, finding_lines, set_line
from asr_verdicts.report.looks import cost_section, furthest, look_rows, shown_margin
from asr_verdicts.report.tables import contrast_row
from asr_verdicts.table_columns import RATE_COLUMNS, rate_rows, validation_rows

DEFINITIONS = {
    "difference, interval": "The arm's mean minus the baseline's, in points (nats for the loss), on the utterances "
    "that all runs have; ± its half-width at the level of the verdict.",
    "p, Holm": "The p-value of the verdict's test before and after Holm's correction.",
    "SE seeds, SE speakers": "The standard error from seeds alone, and from speakers (or other units) alone.",
    "relative": "The difference as a share of the baseline's rate: the linearised logarithm of the ratio, with as many "
    "degrees of freedom as speakers count (Kish 1965).",
    "matched pairs p": "MAPSSWE (Gillick & Cox 1989; Pallett et al. 1990) on these trained models, after Holm's "
    "correction. It ignores other seeds and decides nothing.",
    "superiority": "The share of pairs of an arm's and a baseline's run in which the arm's is better "
    "(comparison.json).",
    "trimmed means": "Means without the best and the worst fifth of an arm's runs.",
    "detectable": "The true difference that this experiment would show with a power of 80 %, with a 90 % interval "
    "because few seeds measure the noise badly.",
    "repeated": "The predicted chance that as many fresh seeds on the same test set give the same verdict.",
    "decides, describes": "A verdict on the test set that decides, or one that only describes. Verdicts that describe "
    "are corrected separately.",
    "look, look (planned), repeated interval": "The number of times the sweep was compared; in a plan, a number of "
    "seeds per arm at which open questions are tested, and the interval there.",
    "margin, grade": "The difference that would not matter, and the size of a shown difference against it.",
    "chance of a verdict": "The predictive probability that the last look decides (Spiegelhalter, Freedman & Blackburn "
    "1986).",
}
"""The terms of the tables, as docs/statistics.md defines them."""

POINTS = 300
"""Largest number of points of a curve."""
UNSHOWN = ("overrides", "outputs", "sweep", "ablation", "logger", "workers", "progress")
"""Keys of a config that only steer the machine or name the run."""

Numbers = list[float | None]
Series = dict[str, Numbers]


def content(comparison: Comparison) -> dict[str, object]:
    """Everything except the page's own code. Values from run folders are text or numbers, never markup."""
    columns = [*RATE_COLUMNS, *TRAINING_COLUMNS]
    metrics = [*metric_names(comparison, "validation/"), *metric_names(comparison, "train/")]
    return {
        "title": comparison.title,
        "question": comparison.question,
        "source": comparison.design.layout.declared.source,
        "factor": comparison.design.layout.factor,
        "metric": comparison.metric,
        "metrics": {name: {**asdict(metric), "heading": metric.heading} for name, metric in METRICS.items()},
        "baseline": comparison.baseline,
        "verdicts": [verdict.sentence for verdict in comparison.answer],
        "answer": _answer(comparison),
        "definitions": list(DEFINITIONS.items()),
        "warnings": comparison.warnings,
        "unfinished": [[run.folder.name, run.reason] for run in comparison.unfinished],
        "rows": rate_rows(comparison, columns),
        "validated": validation_rows(comparison, columns),
        "differences": [contrast_row(verdict) for verdict in comparison.verdicts],
        "search": [asdict(tried) for tried in hyperparameters(comparison)],
        "looks": look_rows(comparison),
        "plan": _plan(comparison),
        "equal": at_equal_cost(comparison.arms, comparison.design.metric),
        "epochs": [_epochs(times) for times in epoch_times(comparison.arms, comparison.baseline)],
        "scaling": [_scaled(row) for row in scaling(comparison.arms)],
        "reached": _times_to_accuracy(comparison),
        "axes": AXES,
        "arms": [{"name": arm.name, "runs": [_run(run, metrics) for run in arm.runs]} for arm in comparison.arms],
        "utilisation": [{"arm": arm.name, "series": _utilisation(arm)} for arm in comparison.arms],
        "networks": _networks(comparison),
        "config": _config(comparison),
        "worst": worst(comparison),
        "environments": _environments(comparison),
    }


def _answer(comparison: Comparison) -> dict[str, object]:
    """The table of the answer with what was found and how."""
    scored = [f"{comparison.scored}."] if comparison.scored else []
    return {
        "set": set_line(comparison),
        "rows": [asdict(row) for row in answer_rows(comparison)],
        "effects": [asdict(row) for row in effect_rows(comparison)],
        "margin": next((verdict.shown_margin for verdict in comparison.answer), None),
        "findings": [*finding_lines(comparison), *(rate.sentence for rate in lone_rates(comparison))],
        "evidence": [*evidence_lines(comparison), *scored],
    }


def _plan(comparison: Comparison) -> dict[str, object] | None:
    """The plan's values for the chart of the looks, and its cost; None without a plan."""
    rows = look_rows(comparison)
    if not rows:
        return None
    plan = comparison.course.followed
    reach = furthest(rows, shown_margin(plan))
    return {"margin": shown_margin(plan), "reach": reach, "looks": plan.looks, "cost": cost_section(comparison).lines}


def _run(run: Record, metrics: Sequence[str]) -> dict[str, object]:
    series: dict[str, Series] = {}
    for metric in metrics:
        drawn = {axis: curve(run, metric, axis) for axis in AXES}
        values = drawn["step"].y
        kept = np.unique(np.linspace(0, len(values) - 1, min(POINTS, len(values))).astype(int))
        if len(values):
            points = {axis: _rounded(line.x[kept]) for axis, line in drawn.items() if len(line.x)}
            series[metric] = {**points, "y": _rounded(values[kept])}
    return {"seed": run.seed, "series": series}


def _times_to_accuracy(comparison: Comparison) -> list[dict[str, object]]:
    reached = times_to_accuracy(comparison)
    groups: dict[tuple[str, float, str], list[TimeToAccuracy]] = defaultdict(list)
    for time in reached:
        groups[time.metric, time.target, time.arm].append(time)
    rows = []
    for (metric, target, arm), times in groups.items():
        count = sum(time.steps is not None for time in times)
        row: dict[str, object] = {"arm": arm, "metric": metric, "target": target, "seeds": f"{count} of {len(times)}"}
        row["relative"] = ratio_text(relative_time(reached, arm, comparison.baseline, target))
        for key in ("seconds", "steps", "audio_hours", "epochs", "cost"):
            known = [value for time in times if (value := getattr(time, key)) is not None]
            if known or key != "cost":  # which needs a price
                row[key] = float(np.mean(known)) if len(known) == len(times) else None
        rows.append(row)
    return rows


def _epochs(times: EpochTimes) -> dict[str, object]:
    return {
        "arm": times.arm,
        "n": times.runs,
        "epochs": times.epochs,
        "first": times.first,
        "seconds": times.mean,
        "over_epochs": times.over_epochs,
        "over_seeds": times.over_runs,
        "ratio": ratio_text(times.ratio),
    }


def _scaled(row: Scaling) -> dict[str, object]:
    """The row as the tables show it: minutes, seconds of audio per second, efficiency in percent."""
    return {
        **({"series": row.series} if row.series else {}),
        "processes": row.processes,
        "device": row.device,
        "n": row.n,
        "batch": row.batch,
        "epoch_minutes": row.epoch_seconds / 60,
        "audio_seconds_per_second": None if row.audio_hours_per_second is None else 3600 * row.audio_hours_per_second,
        "speed_up": ratio_text(row.speed_up),
        "efficiency %": 100 * row.efficiency,
        **({} if row.price is None else {"price": row.price}),
    }


def _utilisation(arm: Arm) -> dict[str, Series]:
    """Samples of the first seed, by column: seconds and values."""
    if not arm.runs:
        return {}
    rows = by_second(read_utilisation(arm.runs[0].folder))
    rows = rows[:: max(1, len(rows) // POINTS)]
    series = {}
    for column in COLUMNS:
        known = [row for row in rows if column not in ("seconds", "audio_hours", *TEXTS) and row[column] is not None]
        if known:
            series[column] = _series([row["seconds"] for row in known], [row[column] for row in known])
    for gpu in range(gpu_lines(rows)):
        known = [row for row in rows if len(row["gpu_percents"]) > gpu]
        percents = [row["gpu_percents"][gpu] for row in known]
        series[f"gpu_percent_{gpu}"] = _series([row["seconds"] for row in known], percents)
    throughput = throughput_curve(arm.runs[0])
    if len(throughput.y):
        every = max(1, len(throughput.y) // POINTS)
        series["audio_seconds_per_second"] = _series(throughput.x[::every], throughput.y[::every])
    return series


def _config(comparison: Comparison) -> list[dict[str, str]]:
    """Keys of the resolved configs that are not the same in all runs, with the values of each arm."""
    flat = {arm.name: [_texts(run.config) for run in arm.runs] for arm in comparison.arms}
    everything = [config for configs in flat.values() for config in configs]
    rows = []
    for key in sorted({key for config in everything for key in config if key.split(".")[0] not in UNSHOWN}):
        values = {name: list(dict.fromkeys(config.get(key, "—") for config in all_)) for name, all_ in flat.items()}
        if len({value for of_arm in values.values() for value in of_arm}) > 1:
            rows.append({"key": key, **{f"arm {name}": ", ".join(of_arm) for name, of_arm in values.items()}})
    return rows


def _networks(comparison: Comparison) -> list[dict[str, object]]:
    """Every different drawing of a model, with the arms that have it; of the first seed of each arm."""
    drawings: dict[str, list[str]] = {}
    for arm in comparison.arms:
        text = read_model(arm.runs[0].folder) if arm.runs else None
        if text is not None:
            drawings.setdefault(text, []).append(arm.name)
    return [{"arms": names, "drawing": text} for text, names in drawings.items()]


def _texts(node: dict[str, object]) -> dict[str, str]:
    """The leaves of a config or an environment by dotted key, as text."""
    leaves = flatten(node).items()
    return {key: value if isinstance(value, str) else json.dumps(value, default=str) for key, value in leaves}


def _environments(comparison: Comparison) -> list[dict[str, object]]:
    """Every different environment, with the runs that ran in it; none of systems."""
    runs: dict[str, list[str]] = {}
    values: dict[str, dict[str, str]] = {}
    for run in () if comparison.scored else comparison.runs:
        environment = {
            "versions": run.environment.versions,
            "hardware": as_json(run.environment.hardware),
            "commit": run.environment.code.commit,
            "uncommitted changes": bool(run.environment.code.dirty_diff),
        }
        key = json.dumps(environment, sort_keys=True, default=str)
        values[key] = _texts(environment)
        runs.setdefault(key, []).append(run.folder.name)
    return [{"runs": names, "values": values[key]} for key, names in runs.items()]


def _series(x: ArrayLike, y: ArrayLike) -> Series:
    return {"x": _rounded(x), "y": _rounded(y)}


def _rounded(values: ArrayLike) -> Numbers:
    """The values with five digits; None for nan and infinities, which JSON has not."""
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in np.asarray(values, float)]

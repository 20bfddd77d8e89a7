"""What the page shows, as plain values for JSON."""

import json
from collections import defaultdict
from dataclasses import asdict
from typing import Any

import numpy as np

from asr_ablations.comparison.result import Arm, Comparison
from asr_ablations.comparison.time_to_accuracy import relative_time
from asr_ablations.report.curves import AXES, curve, metric_names
from asr_ablations.report.figures.throughput import sampled
from asr_ablations.report.figures.utilisation import gpu_count
from asr_ablations.report.interval import high, low, outcome
from asr_ablations.report.page.utterances import worst
from asr_ablations.runs.record import RunRecord
from asr_ablations.runs.utilisation import COLUMNS, TEXTS, read_utilisation

POINTS = 300
"""Of one curve at most."""
UNSHOWN = ("overrides", "outputs", "sweep", "ablation", "logger", "workers", "progress")
"""Keys of a config that only steer the machine or name the run."""


def content(comparison: Comparison) -> dict[str, Any]:
    """Everything but the page's own code. What comes from run folders is text or numbers, never markup."""
    metrics = [*metric_names(comparison, "validation/"), *metric_names(comparison, "train/")]
    return {
        "title": comparison.title,
        "question": comparison.question,
        "source": comparison.source,
        "factor": comparison.factor,
        "metric": comparison.metric,
        "baseline": comparison.baseline,
        "verdicts": comparison.verdicts,
        "literature": comparison.literature,
        "warnings": comparison.warnings,
        "unfinished": [[folder.name, reason] for folder, reason in comparison.unfinished],
        "rows": comparison.rows,
        "differences": [
            {**asdict(d), "low": low(d), "high": high(d), "verdict": outcome(d)} for d in comparison.differences
        ],
        "equal": comparison.equal,
        "scaling": [_scaled(row) for row in comparison.scaling],
        "reached": _reached(comparison),
        "axes": AXES,
        "arms": [{"name": arm.name, "runs": [_run(run, metrics) for run in arm.runs]} for arm in comparison.arms],
        "utilisation": [{"arm": arm.name, "series": _utilisation(arm)} for arm in comparison.arms],
        "config": _config(comparison),
        "worst": worst(comparison),
        "environments": _environments(comparison),
    }


def _run(run: RunRecord, metrics: list[str]) -> dict[str, Any]:
    series = {}
    for metric in metrics:
        drawn = {axis: curve(run, metric, axis) for axis in AXES}
        values = drawn["step"].y
        kept = np.unique(np.linspace(0, len(values) - 1, min(POINTS, len(values))).astype(int))
        if len(values):
            points = {axis: _rounded(found.x[kept]) for axis, found in drawn.items() if len(found.x)}
            series[metric] = {**points, "y": _rounded(values[kept])}
    return {"seed": run.seed, "series": series}


def _reached(comparison: Comparison) -> list[dict[str, Any]]:
    groups: dict[tuple[str, float, str], list[Any]] = defaultdict(list)
    for found in comparison.reached:
        groups[found.metric, found.target, found.arm].append(found)
    rows = []
    for (metric, target, arm), all_ in groups.items():
        there = sum(found.steps is not None for found in all_)
        row: dict[str, Any] = {"arm": arm, "metric": metric, "target": target, "seeds": f"{there} of {len(all_)}"}
        row["relative"] = relative_time(comparison.reached, arm, comparison.baseline, target)
        for key in ("seconds", "steps", "audio_hours", "epochs", "cost"):
            known = [value for found in all_ if (value := getattr(found, key)) is not None]
            if known or key != "cost":  # there is none without a price
                row[key] = float(np.mean(known)) if len(known) == len(all_) else None
        rows.append(row)
    return rows


def _scaled(row: dict[str, Any]) -> dict[str, Any]:
    """As the tables show it: seconds of audio a second, efficiency in percent."""
    speed, efficiency = 3600 * row["audio_hours_per_second"], 100 * row["efficiency"]
    kept = {key: row[key] for key in ("gpus", "n", "speed_up")}
    return {**kept, "audio_seconds_per_second": speed, "efficiency %": efficiency}


def _utilisation(arm: Arm) -> dict[str, dict[str, list[float | None]]]:
    """Samples of the first seed: column → seconds and values."""
    rows = read_utilisation(arm.runs[0].folder) if arm.runs else []
    rows = rows[:: max(1, len(rows) // POINTS)]
    series = {}
    for column in COLUMNS:
        known = [row for row in rows if column not in ("seconds", "audio_hours", *TEXTS) and row[column] is not None]
        if known:
            points = ([row[key] for row in known] for key in ("seconds", column))
            series[column] = dict(zip(("x", "y"), map(_rounded, points), strict=True))
    for gpu in range(gpu_count(rows)):
        known = [row for row in rows if len(row["gpu_percents"]) > gpu]
        seconds, used = [row["seconds"] for row in known], [row["gpu_percents"][gpu] for row in known]
        series[f"gpu_percent_{gpu}"] = {"x": _rounded(seconds), "y": _rounded(used)}
    trained = sampled(arm.runs[0]) if arm.runs else None
    if trained is not None and len(trained.y):
        every = max(1, len(trained.y) // POINTS)
        series["audio_seconds_per_second"] = {"x": _rounded(trained.x[::every]), "y": _rounded(trained.y[::every])}
    return series


def _config(comparison: Comparison) -> list[dict[str, Any]]:
    """Keys of the resolved configs that are not the same in all runs, with the values of each arm."""
    flat = {arm.name: [_flat(run.config) for run in arm.runs] for arm in comparison.arms}
    everything = [config for configs in flat.values() for config in configs]
    rows = []
    for key in sorted({key for config in everything for key in config if key.split(".")[0] not in UNSHOWN}):
        values = {name: list(dict.fromkeys(config.get(key, "—") for config in all_)) for name, all_ in flat.items()}
        if len({value for found in values.values() for value in found}) > 1:
            rows.append({"key": key, **{f"arm {name}": ", ".join(found) for name, found in values.items()}})
    return rows


def _flat(node: Any, prefix: str = "") -> dict[str, str]:
    if not isinstance(node, dict):
        return {prefix[:-1]: node if isinstance(node, str) else json.dumps(node, default=str)}
    return {key: value for name, child in node.items() for key, value in _flat(child, f"{prefix}{name}.").items()}


def _environments(comparison: Comparison) -> list[dict[str, Any]]:
    """Each different one once, with the runs that ran in it."""
    found: dict[str, dict[str, Any]] = {}
    for run in (run for arm in comparison.arms for run in arm.runs):
        code = run.environment.get("code") or {}
        told = {
            "versions": run.environment.get("versions"),
            "hardware": run.environment.get("hardware"),
            "commit": code.get("commit"),
            "uncommitted changes": bool(code.get("dirty_diff")),
        }
        key = json.dumps(told, sort_keys=True, default=str)
        found.setdefault(key, {"runs": [], "values": _flat(told)})["runs"].append(run.folder.name)
    return list(found.values())


def _rounded(values: Any) -> list[float | None]:
    """Five digits; null for what is no finite number, which JSON has not."""
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in np.asarray(values, float)]

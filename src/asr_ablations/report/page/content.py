"""The page's content as plain values for JSON."""

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from asr_ablations.report.curves import AXES, curve, metric_names, throughput_curve
from asr_ablations.report.figures.utilisation import count_gpu_lines
from asr_ablations.report.inspection import Inspected
from asr_ablations.report.page.utterances import confusion_sections, inspected_utterances, worst
from asr_ablations.runs.metrics_files import by_second, read_utilisation
from asr_ablations.runs.reader import read_model
from asr_ablations.tools.typed_json import as_json
from asr_verdicts.comparison import Comparison
from asr_verdicts.config import flatten
from asr_verdicts.metrics import METRICS
from asr_verdicts.record import Record
from asr_verdicts.report.answer import answer_tables, evidence_lines, finding_lines, set_line
from asr_verdicts.report.document import Report
from asr_verdicts.report.section import Section

NOTES = ("Warnings", "Not finished")
"""Sections shown with the answer."""
PICTURES = {
    "Looks": "looks",
    "Runs of the search": "search",
    "Error rates of the": "seeds",
    "Error rates,": "seeds",
    "Until the median": "time_to_accuracy",
    "Scaling": "scaling",
}
"""The figure shown in a section, by the start of its heading."""
MACHINE = {
    "cpu_percent": "CPU, % of all cores",
    "host_memory_gib": "host memory, GiB",
    "disk_read_mib": "read from disk, MiB per sample",
    "gpu_percent": "GPU, %",
    "gpu_memory_gib": "GPU memory, GiB",
    "gpu_power_watts": "GPU power, W",
}
"""Titles of columns in utilisation.csv."""
SPEED = "machine/speed"
POINTS = 300
"""Maximum number of points of a curve."""
UNSHOWN = ("overrides", "outputs", "sweep", "ablation", "logger", "workers", "progress")
"""Config keys that only concern the machine or a run's name."""

Numbers = list[float | None]
Series = dict[str, Numbers]


def content(report: Report, figures: Sequence[Path] = (), inspected: Sequence[Inspected] = ()) -> dict[str, object]:
    """Return everything except the page's code. Values from run folders stay text or numbers, never markup.
    figures: the drawn files. inspected: utterances of a single run.
    """
    comparison = report.comparison
    drawn = {path.stem: _embed(path) for path in figures if path.suffix == ".svg"}
    metrics, findings = _title_metrics(comparison), finding_lines(comparison)
    sections = [*report.sections, *confusion_sections(comparison)]
    sections += [*_build_config_sections(comparison), *_build_environment_sections(comparison)]
    above = [*NOTES, *(section.heading for section in sections if findings and section.lines == findings)]
    below = [section for section in sections if section.heading not in above]
    return {
        "title": comparison.title,
        "question": comparison.question,
        "source": comparison.design.layout.declared.source,
        "factor": comparison.design.layout.factor,
        "answer": {
            "set": set_line(comparison),
            "figure": drawn.get("differences"),
            "tables": [] if report.ranking else [asdict(table) for table in answer_tables(comparison)],
            "findings": findings,
            "evidence": [*evidence_lines(comparison), *([f"{comparison.scored}."] if comparison.scored else [])],
        },
        "notes": [asdict(section) for section in sections if section.heading in NOTES],
        "sections": [{**asdict(section), "figure": drawn.get(_find_picture(section))} for section in below],
        "axes": AXES,
        "metrics": metrics,
        "arms": [
            {"name": arm.name, "runs": [_describe_run(run, metrics, run is arm.runs[0]) for run in arm.runs]}
            for arm in comparison.arms
        ],
        "worst": worst(comparison),
        "inspected": inspected_utterances(comparison, inspected),
        "networks": _collect_networks(comparison),
    }


def _embed(figure: Path) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(figure.read_bytes()).decode()


def _find_picture(section: Section) -> str:
    return next((name for start, name in PICTURES.items() if section.heading.startswith(start)), "")


def _title_metrics(comparison: Comparison) -> dict[str, str]:
    """Return titles for the columns of metrics.csv and the machine's columns, with the compared metric first."""
    kinds, titles = [comparison.metric, *METRICS], {}
    validated = [name.partition("/")[2].rpartition("/") for name in metric_names(comparison, "validation/")]
    for set_, slash, kind in sorted(
        validated, key=lambda name: (kinds.index(name[2]) if name[2] in kinds else 9, name)
    ):
        metric = METRICS.get(kind)
        title = f"{metric.label} of {set_}, {metric.unit}" if metric else f"{kind.replace('_', ' ')} of {set_}"
        titles[f"validation/{set_}{slash}{kind}"] = title
    for name in metric_names(comparison, "train/"):
        titles[name] = f"{name.partition('/')[2].replace('_', ' ')} in training"
    machine = {f"machine/{column}": f"machine: {title}" for column, title in MACHINE.items()}
    gpus = {f"machine/gpu_{gpu}": f"machine: GPU {gpu}, %" for gpu in range(8)}
    return {**titles, **machine, **gpus, SPEED: "machine: seconds of audio trained per second"}


def _describe_run(run: Record, metrics: Iterable[str], first: bool) -> dict[str, object]:
    """Return a run's series by metric, in the metric's unit; for an arm's first run, also the machine's."""
    series = _read_machine(run) if first else {}
    for metric in metrics:
        drawn = {axis: curve(run, metric, axis) for axis in AXES}
        values = drawn["step"].y
        if len(values):
            every = np.unique(np.linspace(0, len(values) - 1, min(POINTS, len(values))).astype(int))
            points = {axis: _round(line.x[every]) for axis, line in drawn.items() if len(line.x)}
            kind = METRICS.get(metric.rpartition("/")[2])
            series[metric] = {**points, "y": _round(values[every] * (kind.scale if kind else 1))}
    return {"seed": run.seed, "series": series}


def _read_machine(run: Record) -> dict[str, Series]:
    """Return the machine's samples over time."""
    rows = by_second(read_utilisation(run.folder))
    rows = rows[:: max(1, len(rows) // POINTS)]
    lines = {
        f"machine/{column}": [(row["seconds"], row[column]) for row in rows if row[column] is not None]
        for column in MACHINE
    }
    for gpu in range(count_gpu_lines(rows)):
        percents = [(row["seconds"], row["gpu_percents"]) for row in rows]
        lines[f"machine/gpu_{gpu}"] = [(second, each[gpu]) for second, each in percents if len(each) > gpu]
    speed = throughput_curve(run)
    lines[SPEED] = [*zip(speed.x, speed.y, strict=True)][:: max(1, len(speed.y) // POINTS)]
    return {
        name: {"time": _round([x for x, _ in points]), "y": _round([y for _, y in points])}
        for name, points in lines.items()
        if points
    }


def _build_config_sections(comparison: Comparison) -> list[Section]:
    """Show the keys whose values differ between the runs' resolved configs, with each arm's values."""
    flat = {arm.name: [_flatten_texts(run.config) for run in arm.runs] for arm in comparison.arms}
    everything = [config for configs in flat.values() for config in configs]
    rows = []
    for key in sorted({key for config in everything for key in config if key.split(".")[0] not in UNSHOWN}):
        values = [list(dict.fromkeys(config.get(key, "—") for config in configs)) for configs in flat.values()]
        if len({value for of_arm in values for value in of_arm}) > 1:
            rows.append([key, *(", ".join(of_arm) for of_arm in values)])
    return [Section("Config keys that differ", ["key", *flat], rows)] if rows else []


def _collect_networks(comparison: Comparison) -> list[dict[str, object]]:
    """Return each different model diagram with its arms, using the first seed of each arm."""
    drawings: dict[str, list[str]] = {}
    for arm in comparison.arms:
        text = read_model(arm.runs[0].folder) if arm.runs else None
        if text is not None:
            drawings.setdefault(text, []).append(arm.name)
    return [{"arms": names, "drawing": text} for text, names in drawings.items()]


def _flatten_texts(node: dict[str, object]) -> dict[str, str]:
    """Return the leaves of a config or environment as text, by dotted key."""
    leaves = flatten(node).items()
    return {key: value if isinstance(value, str) else json.dumps(value, default=str) for key, value in leaves}


def _build_environment_sections(comparison: Comparison) -> list[Section]:
    """Show each different environment with its runs; nothing for systems without runs."""
    environments: dict[str, dict[str, str]] = {}
    for run in () if comparison.scored else comparison.runs:
        values = _flatten_texts({
            "versions": run.environment.versions,
            "hardware": as_json(run.environment.hardware),
            "commit": run.environment.code.commit,
            "uncommitted changes": bool(run.environment.code.dirty_diff),
        })  # fmt: skip
        same = environments.setdefault(json.dumps(values, sort_keys=True), {**values, "runs": ""})
        same["runs"] += f"{same['runs'] and ', '}{run.folder.name}"
    keys = dict.fromkeys(key for values in environments.values() for key in values)
    rows = [[key, *(values.get(key, "") for values in environments.values())] for key in keys]
    head = ["", *(values.get("hardware.processor", "unknown machine") for values in environments.values())]
    return [Section("Environment", head, rows)] if rows else []


def _round(values: ArrayLike) -> Numbers:
    """Round to five digits; nan and infinities become None, because JSON lacks them."""
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in np.asarray(values, float)]

"""A comparison as a single HTML file that needs no network."""

import base64
import gzip
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib.resources import files
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from asr_ablations.report.curves import AXES, curve, metric_names
from asr_ablations.report.inspection import Inspected, confusion_sections, inspected_utterances, worst
from asr_ablations.tools.typed_json import as_json
from asr_verdicts.comparison import Comparison
from asr_verdicts.config import flatten
from asr_verdicts.files import write
from asr_verdicts.metrics import METRICS
from asr_verdicts.record import Record
from asr_verdicts.report.answer import answer_tables, evidence_lines, finding_lines, set_line
from asr_verdicts.report.document import Report
from asr_verdicts.report.files import plain
from asr_verdicts.report.section import Section

SCRIPTS = ("tables.js", "curves.js", "main.js")
NOTES = ("Warnings", "Not finished")
"""Sections shown with the answer."""
PICTURES = {
    "Looks": "looks",
    "Runs of the search": "search",
    "Error rates of the": "seeds",
    "Error rates,": "seeds",
    "Until the median": "time_to_accuracy",
    "Seconds per epoch": "utilisation",
    "Scaling": "scaling",
}
"""The figure shown in a section, by the start of its heading."""
POINTS = 300
"""Maximum number of points of a curve."""


def write_page(
    report: Report, folder: Path, figures: Sequence[Path] = (), inspected: Sequence[Inspected] = ()
) -> list[Path]:
    """Write <folder>/index.html, which includes data, code, plotly and figures; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "index.html"
    write(path, render(report, figures, inspected))
    return [path]


def render(report: Report, figures: Sequence[Path] = (), inspected: Sequence[Inspected] = ()) -> str:
    """Return the page's HTML."""
    parts = {
        "style": _read_own("style.css"),
        "script": "\n".join(_read_own(name) for name in SCRIPTS),
        "data": embedded(content(report, figures, inspected)),
        "plotly": _read_plotly(),
    }
    return re.sub(r"@@(\w+)@@", lambda place: parts[place[1]], _read_own("page.html"))


def embedded(value: object) -> str:
    """Return JSON for use inside <script>: its texts cannot end the element or start another."""
    text = json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"), default=str)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode("utf-8", "replace").decode()


def _read_own(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _read_plotly() -> str:
    """Return plotly.js from its Python package, compressed from 4.8 MB to 2.0 MB."""
    code = files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    return base64.b64encode(gzip.compress(code, 9, mtime=0)).decode()


def content(report: Report, figures: Sequence[Path] = (), inspected: Sequence[Inspected] = ()) -> dict[str, object]:
    """Return everything except the page's code. Values from run folders stay text or numbers, never markup.
    figures: the drawn files. inspected: utterances of a single run.
    """
    comparison = report.comparison
    drawn = {path.stem: _embed(path) for path in figures if path.suffix == ".svg"}
    metrics, findings = _title_metrics(comparison), finding_lines(comparison)
    sections = [*report.sections, *confusion_sections(comparison), *_build_environment_sections(comparison)]
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
            {"name": arm.name, "runs": [{"seed": run.seed, "series": _list_series(run, metrics)} for run in arm.runs]}
            for arm in comparison.arms
        ],
        "worst": worst(comparison),
        "inspected": inspected_utterances(comparison, inspected),
    }


def _embed(figure: Path) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(figure.read_bytes()).decode()


def _find_picture(section: Section) -> str:
    return next((name for start, name in PICTURES.items() if section.heading.startswith(start)), "")


def _title_metrics(comparison: Comparison) -> dict[str, str]:
    """Return titles for the columns of metrics.csv, with the compared metric first."""
    order, titles = {name: place for place, name in enumerate([comparison.metric, *METRICS])}, {}
    validated = [name.split("/", 1)[1].rpartition("/") for name in metric_names(comparison, "validation/")]
    for set_, _, kind in sorted(validated, key=lambda name: (order.get(name[2], len(order)), name)):
        metric = METRICS.get(kind)
        title = f"{metric.label} of {set_}, {metric.unit}" if metric else f"{kind.replace('_', ' ')} of {set_}"
        titles[f"validation/{set_}/{kind}"] = title
    training = metric_names(comparison, "train/")
    return titles | {name: f"{name.removeprefix('train/').replace('_', ' ')} in training" for name in training}


def _list_series(run: Record, metrics: Iterable[str]) -> dict[str, dict[str, list[float | None]]]:
    """Return a run's values by metric, in the metric's unit, with their places on each axis."""
    series = {}
    for metric in metrics:
        drawn = {axis: curve(run, metric, axis) for axis in AXES}
        values = drawn["step"].y
        if len(values):
            every = np.unique(np.linspace(0, len(values) - 1, min(POINTS, len(values))).astype(int))
            points = {axis: _round(line.x[every]) for axis, line in drawn.items() if len(line.x)}
            kind = METRICS.get(metric.rpartition("/")[2])
            series[metric] = {**points, "y": _round(values[every] * (kind.scale if kind else 1))}
    return series


def _build_environment_sections(comparison: Comparison) -> list[Section]:
    """Show each different environment with its runs; nothing for systems without runs."""
    runs: dict[str, list[str]] = {}
    for run in () if comparison.scored else comparison.runs:
        environment = {
            "versions": run.environment.versions,
            "hardware": as_json(run.environment.hardware),
            "commit": run.environment.code.commit,
            "uncommitted changes": bool(run.environment.code.dirty_diff),
        }
        texts = {
            key: value if isinstance(value, str) else json.dumps(value) for key, value in flatten(environment).items()
        }
        runs.setdefault(json.dumps(texts), []).append(run.folder.name)
    columns = [{**json.loads(texts), "runs": ", ".join(names)} for texts, names in runs.items()]
    rows = [[key, *(column.get(key, "") for column in columns)] for key in dict.fromkeys(chain(*columns))]
    head = ["", *(column.get("hardware.processor", "unknown machine") for column in columns)]
    return [Section("Environment", head, rows)] if rows else []


def _round(values: ArrayLike) -> list[float | None]:
    """Round to five digits; nan and infinities become None, because JSON lacks them."""
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in np.asarray(values, float)]

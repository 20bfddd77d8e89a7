"""Write a comparison as a single HTML file that needs no network."""

import base64
import gzip
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from asr_ablations.report.curves import AXES, curve, metric_names
from asr_ablations.report.inspection import Inspected, confusion_sections, inspected_utterances, worst
from asr_verdicts.comparison import Comparison
from asr_verdicts.files import write
from asr_verdicts.metrics import METRICS
from asr_verdicts.record import Record
from asr_verdicts.report.answer import answer_tables, evidence_lines, finding_lines, set_line
from asr_verdicts.report.document import Report
from asr_verdicts.report.files import plain
from asr_verdicts.report.section import Section

SCRIPTS = ("tables.js", "curves.js", "main.js")
NOTES = ("Warnings", "Not finished")
"""Headings of the sections that are shown together with the answer."""
PICTURES = {
    "Looks": "looks",
    "Runs of the search": "search",
    "Error rates of the": "seeds",
    "Error rates,": "seeds",
    "Until the median": "time_to_accuracy",
    "Seconds per epoch": "utilisation",
    "Scaling": "scaling",
}
"""Figure to show in each section, by the beginning of the section's heading."""
POINTS = 300
"""Maximum number of points in a curve."""


def write_page(
    report: Report, folder: Path, figures: Sequence[Path] = (), inspected: Sequence[Inspected] = ()
) -> list[Path]:
    """Write <folder>/index.html, which contains the data, the figures and all code. Return its path as a list."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "index.html"
    write(path, render(report, figures, inspected))
    return [path]


def render(report: Report, figures: Sequence[Path] = (), inspected: Sequence[Inspected] = ()) -> str:
    """Return the HTML of the page. figures, inspected: see `content`."""
    parts = {
        "style": _read_own("style.css"),
        "script": "\n".join(_read_own(name) for name in SCRIPTS),
        "data": embedded(content(report, figures, inspected)),
        "plotly": _read_plotly(),
    }
    return re.sub(r"@@(\w+)@@", lambda place: parts[place[1]], _read_own("page.html"))


def embedded(value: object) -> str:
    """Return a value as JSON that is safe inside <script>: no string in it can end the element or start another."""
    text = json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"), default=str)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode("utf-8", "replace").decode()


def _read_own(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _read_plotly() -> str:
    """Return the code of plotly.js from its Python package as base64, compressed from 4.8 MB to 2.0 MB."""
    code = files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    return base64.b64encode(gzip.compress(code, 9, mtime=0)).decode()


def content(report: Report, figures: Sequence[Path] = (), inspected: Sequence[Inspected] = ()) -> dict[str, object]:
    """Return the data of the page. Values from run folders stay strings or numbers, and never become markup.

    figures: figure files; only the SVG files are embedded. inspected: utterances of a single run.
    """
    comparison = report.comparison
    drawn = {path.stem: _embed(path) for path in figures if path.suffix == ".svg"}
    metrics, findings = _title_metrics(comparison), finding_lines(comparison)
    sections = [*report.sections, *confusion_sections(comparison)]
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
        "inspected": inspected_utterances(comparison, inspected, drawn),
    }


def _embed(figure: Path) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(figure.read_bytes()).decode()


def _find_picture(section: Section) -> str:
    return next((name for start, name in PICTURES.items() if section.heading.startswith(start)), "")


def _title_metrics(comparison: Comparison) -> dict[str, str]:
    """Return a title for each column of metrics.csv that the page draws. The compared metric comes first."""
    order, titles = {name: place for place, name in enumerate([comparison.metric, *METRICS])}, {}
    validated = [name.split("/", 1)[1].rpartition("/") for name in metric_names(comparison, "validation/")]
    for set_, _, kind in sorted(validated, key=lambda name: (order.get(name[2], len(order)), name)):
        metric = METRICS.get(kind)
        title = f"{metric.label} of {set_}, {metric.unit}" if metric else f"{kind.replace('_', ' ')} of {set_}"
        titles[f"validation/{set_}/{kind}"] = title
    training = metric_names(comparison, "train/")
    return titles | {name: f"{name.removeprefix('train/').replace('_', ' ')} in training" for name in training}


def _list_series(run: Record, metrics: Iterable[str]) -> dict[str, dict[str, list[float | None]]]:
    """Return a run's curve for each metric: values `y` in the metric's unit, and their positions on each axis."""
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


def _round(values: ArrayLike) -> list[float | None]:
    """Round values to five significant digits. NaN and infinity become None, because JSON cannot represent them."""
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in np.asarray(values, float)]

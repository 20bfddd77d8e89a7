"""The text files of a comparison: table.md, table.csv, table.tex, appendix.tex, comparison.json and timing.json."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from asr_ablations.comparison.arms import Arm
from asr_ablations.comparison.result import Comparison
from asr_ablations.comparison.sequential_result import spent
from asr_ablations.comparison.table_columns import TIMES
from asr_ablations.report.formats import markdown
from asr_ablations.report.latex import appendix, paper_table
from asr_ablations.report.looks import look_rows
from asr_ablations.report.tables import contrast_row
from asr_ablations.runs.layout import TIMING
from asr_ablations.runs.verdict_plan import VerdictPlan
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.files import write, write_csv, write_json
from asr_ablations.tools.terminal import harmless


def write_texts(comparison: Comparison, folder: Path) -> list[Path]:
    """Write all files; their paths. Numbers in CSV and JSON are as measured, rates as fractions.

    comparison.json depends on the results alone: the same training, measured again elsewhere, gives the same bytes.
    Its times are in timing.json; hypotheses that were given have none. Raises UsageError if the folder has a file with
    one of these names and no comparison.json: another program's.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name for name in ("table.md", "table.csv", "table.tex", "appendix.tex", "comparison.json")]
    others = [path for path in (*paths, folder / "index.html") if path.exists()]
    if others and not paths[4].exists():
        raise UsageError(f"{others[0]}: not written by a comparison, and would be replaced; --out names another folder")
    write_json(paths[4], plain(as_json(comparison)))
    write(paths[0], harmless(markdown(comparison)))
    write_csv(paths[1], [{key: _harmless_cell(cell) for key, cell in row.items()} for row in comparison.rows])
    write(paths[2], paper_table(comparison))
    write(paths[3], appendix(comparison))
    if comparison.scored:
        return paths
    write_json(folder / f"{TIMING}.json", plain(timing(comparison)))
    return [*paths, folder / f"{TIMING}.json"]


def _harmless_cell(cell: object) -> object:
    return harmless(cell) if isinstance(cell, str) else cell


def as_json(comparison: Comparison) -> dict[str, object]:
    """The comparison without times, and without the records of its runs, which lie in their own folders."""
    return {
        "title": comparison.title,
        "question": comparison.question,
        "source": comparison.source,
        "factor": comparison.factor,
        "baseline": comparison.baseline,
        "arms": [_arm(arm, comparison.scored) for arm in comparison.arms],
        "sets": comparison.sets,
        "rows": [_without(TIMES, row) for row in comparison.rows],
        "validated": [_without(TIMES, row) for row in comparison.validated],
        "differences": [contrast_row(verdict) for verdict in comparison.verdicts],
        "reached": [_without(REACHED_TIMES, asdict(time)) for time in comparison.times_to_accuracy],
        "verdicts": [verdict.sentence for verdict in comparison.answer],
        "warnings": comparison.warnings,
        "unfinished": [
            {"folder": run.folder.name, "state": run.state, "reason": run.reason} for run in comparison.unfinished
        ],
        "differing": comparison.differing,
        "metric": comparison.metric,
        "set": comparison.set,
        "evidence": {
            "test": comparison.evidence.test,
            "reason": comparison.evidence.reason,
            "look": comparison.evidence.look,
        },
        "scored": comparison.scored,
        "equal": [row for row in comparison.equal_cost if row["axis"] != "seconds"],
        "noise_sources": [asdict(row) for row in comparison.noise_sources],
        "lone_rates": [asdict(lone) for lone in comparison.lone_rates],
        "one_arm": [asdict(description) for description in comparison.one_arm],
        "loss_against_wer": [asdict(each) for each in comparison.loss_against_wer],
        "gradient_norm": [asdict(row) for row in comparison.gradients],
        "allowed": comparison.allowed,
        "plan": None if comparison.plan is None else _plan(comparison.plan),
        "looks": look_rows(comparison),
        "spent": None if (cost := _spent(comparison)) is None else _without(SPENT_TIMES, cost),
    }


REACHED_TIMES = ("seconds", "cost")
SPENT_TIMES = ("hours", "untimed", "hours_saved", "hours_taken_over")


def timing(comparison: Comparison) -> dict[str, object]:
    """The times of a comparison, and what follows from them: costs, ratios, and rates at equal seconds."""
    arms = {row["arm"]: row for row in comparison.rows}
    return {
        "arms": [{key: row[key] for key in ("arm", *TIMES)} for row in arms.values()],
        "reached": [_without(("steps", "audio_hours", "epochs"), asdict(one)) for one in comparison.times_to_accuracy],
        "equal": [row for row in comparison.equal_cost if row["axis"] == "seconds"],
        "epochs": [asdict(times) for times in comparison.epochs],
        "scaling": [asdict(row) for row in comparison.scaling],
        "spent": None if (cost := _spent(comparison)) is None else {key: cost[key] for key in SPENT_TIMES},
    }


def _without(keys: Sequence[str], row: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in row.items() if key not in keys}


def _plan(plan: VerdictPlan) -> dict[str, object]:
    """The plan with its arms by name: their configs lie in the manifest."""
    return {**plan.as_json(), "arms": [arm.name for arm in plan.arms]}


def _spent(comparison: Comparison) -> dict[str, object] | None:
    if comparison.plan is None or comparison.course is None:
        return None
    return asdict(spent(comparison.plan, comparison.course, comparison.arms))


def _arm(arm: Arm, scored: str) -> dict[str, object]:
    """The runs of an arm by their folder's name; files of hypotheses as they were given."""
    runs = [
        {"folder": run.folder if scored else run.folder.name, "seed": run.seed, "id": run.summary.id}
        for run in arm.runs
    ]
    return {"name": arm.name, "runs": runs}


def plain(value: object) -> object:
    """The value as JSON can hold it: paths as text, NumPy's scalars as numbers, null for nan and infinities."""
    if isinstance(value, dict):
        return {str(key): plain(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(child) for child in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value

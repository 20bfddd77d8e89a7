"""A comparison's files: table.md, table.csv, table.tex and comparison.json."""

import math
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from asr_ablations.comparison.result import Arm, Comparison
from asr_ablations.report.latex import latex
from asr_ablations.report.markdown import markdown
from asr_ablations.tools.files import write, write_csv, write_json


def write_texts(comparison: Comparison, folder: Path) -> list[Path]:
    """All four; numbers in CSV and JSON are as measured, rates as fractions."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name for name in ("table.md", "table.csv", "table.tex", "comparison.json")]
    write(paths[0], markdown(comparison))
    write_csv(paths[1], comparison.rows)
    write(paths[2], latex(comparison))
    write_json(paths[3], as_json(comparison))
    return paths


def as_json(comparison: Comparison) -> dict[str, Any]:
    """The comparison without the records of its runs, which lie in their own folders; what is no number is null."""
    told = {one.name: getattr(comparison, one.name) for one in fields(comparison)}
    told["arms"] = [_arm(arm) for arm in comparison.arms]
    told["differences"] = [asdict(one) for one in comparison.differences]
    told["reached"] = [asdict(one) for one in comparison.reached]
    plain: dict[str, Any] = _plain(told)
    return plain


def _arm(arm: Arm) -> dict[str, Any]:
    runs = [{"folder": run.folder, "seed": run.seed, "id": run.summary.get("id")} for run in arm.runs]
    return {"name": arm.name, "runs": runs}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(child) for child in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value

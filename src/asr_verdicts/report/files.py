"""Write a comparison's text files: tables, the methods paragraph, comparison.json and timing.json."""

import math
from pathlib import Path

import numpy as np

from asr_verdicts.errors import UsageError
from asr_verdicts.files import write, write_csv, write_json
from asr_verdicts.report.document import Report
from asr_verdicts.report.formats import markdown
from asr_verdicts.report.latex import appendix, paper_table
from asr_verdicts.report.methods import write_methods
from asr_verdicts.terminal import harmless


def write_texts(report: Report, folder: Path) -> list[Path]:
    """Write all text files and return their paths. CSV and JSON contain unrounded numbers, with rates as fractions.

    Raises UsageError if one of these files exists without a comparison.json, because another program must have
    written it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name for name in ("table.md", "table.csv", "table.tex", "appendix.tex", "comparison.json")]
    others = [path for path in (*paths, folder / "index.html") if path.exists()]
    if others and not paths[4].exists():
        raise UsageError(f"{others[0]}: not written by a comparison, and would be replaced; --out sets another folder")
    write_json(paths[4], plain(report.content))
    write(paths[0], harmless(markdown(report)))
    rows = [
        {key: harmless(cell) if isinstance(cell, str) else cell for key, cell in row.items()} for row in report.rows
    ]
    write_csv(paths[1], rows)
    write(paths[2], paper_table(report.comparison))
    write(paths[3], appendix(report))
    if methods := write_methods(report.comparison):
        paths.append(folder / "methods.txt")
        write(paths[-1], methods)
    if report.timing is None:
        return paths
    write_json(folder / "timing.json", plain(report.timing))
    return [*paths, folder / "timing.json"]


def plain(value: object) -> object:
    """Convert a value to JSON types: paths to strings, NumPy scalars to numbers, and nan and infinities to null."""
    if isinstance(value, dict):
        return {str(key): plain(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(child) for child in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value

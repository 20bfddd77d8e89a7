"""Run folders read back: what is finished, and what is not and why."""

import csv
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.progress import track

from asr_ablations.runs.evaluations import FOLDER, read_evaluations
from asr_ablations.runs.lease import owner
from asr_ablations.runs.record import RunRecord
from asr_ablations.tools.errors import UsageError

KEPT_ASIDE = re.compile(r"-[0-9a-f]{8}\.\d+$")
"""How the folder of an earlier run of the same content ends."""

RUNNING = "still running"
TEXTS = ("set", "id", "speaker", "reference", "hypothesis", "audio")
SECONDS = ("offset", "duration")


@dataclass(frozen=True)
class Found:
    """Finished runs in the order in which they were started, folders of others with the reason, and warnings on where
    they come from.
    """

    runs: list[RunRecord]
    unfinished: list[tuple[Path, str]]
    warnings: list[str] = field(default_factory=list)


def load(folders: Sequence[Path]) -> Found:
    """All runs of the folders, each a run's or a sweep's. Raises UsageError for a folder that holds none."""
    runs: dict[Path, RunRecord] = {}
    unfinished: dict[Path, str] = {}
    sweeps = [folder for folder in folders if folder.name != FOLDER]
    for folder in folders:
        if folder.name == FOLDER:
            runs |= {run.folder: run for run in read_evaluations(folder, read_run, _utterances)}
    for path in _with_bar([path for folder in sweeps for path in _run_folders(folder)]):
        if reason := why_unfinished(path):
            unfinished[path.resolve()] = reason
        elif path.resolve() not in runs:
            runs[path.resolve()] = replace(read_run(path), folder=path)
    return Found(sorted(runs.values(), key=_started), list(unfinished.items()))


def _with_bar(paths: list[Path]) -> Iterable[Path]:
    console = Console(stderr=True)
    return track(paths, "reading runs", console=console, transient=True, disable=not console.is_terminal)


def _run_folders(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder; expected a sweep's, or a run's")
    if (folder / "status.json").exists():
        return [folder]
    children = {path.parent for path in folder.glob("*/status.json") if not KEPT_ASIDE.search(path.parent.name)}
    frozen = {folder / path.stem for path in (folder / "arms").glob("*.yaml")}  # arms that never started, too
    if not children | frozen:
        raise UsageError(f"{folder}: holds no runs; expected a sweep's folder, or a run's with its status.json")
    return sorted(children | frozen)


def why_unfinished(folder: Path) -> str | None:
    """What became of a run that is not done; None for one that is."""
    try:
        status = json.loads((folder / "status.json").read_text(encoding="utf-8"))
    except OSError:
        return "did not start"
    if status["status"] == "done":
        return None
    if status["status"] == "running":
        return f"{RUNNING}: {who}" if (who := owner(folder)) else "died without a word"
    return f"{status['status']}: {status.get('reason', 'no reason given')}"


def read_run(folder: Path) -> RunRecord:
    """The record of one finished run. Raises UsageError for one that is not whole."""
    try:
        return RunRecord(
            folder=folder,
            config=yaml.load((folder / "config.yaml").read_text(encoding="utf-8"), _Loader),
            overrides=(folder / "overrides").read_text(encoding="utf-8").splitlines(),
            summary=_json(folder / "summary.json"),
            metrics=[_numbers(row) for row in _rows(folder / "metrics.csv")],
            utterances=_utterances(folder / "utterances.csv"),
            environment=_json(folder / "environment.json"),
            data=_json(folder / "data.json") if (folder / "data.json").exists() else {},
        )
    except OSError as error:
        raise UsageError(f"{folder}: says done, but {Path(str(error.filename)).name} cannot be read") from error


_Loader = type("_Loader", (getattr(yaml, "CSafeLoader", yaml.SafeLoader),), {})
# YAML 1.1 reads 1e-3 as text; OmegaConf, which wrote the file, reads a number
_Loader.add_implicit_resolver(  # type: ignore[attr-defined]
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?\d[\d_]*(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def _json(path: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return told


def _rows(path: Path) -> Iterable[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        lines = csv.reader(file)
        head = next(lines, [])
        for line in lines:
            yield dict(zip(head, line, strict=True))


def _utterances(path: Path) -> list[dict[str, Any]]:
    return [_counts(row) for row in _rows(path)]


def _numbers(row: dict[str, str]) -> dict[str, float | None]:
    return {key: float(value) if value else None for key, value in row.items()}


def _counts(row: dict[str, str]) -> dict[str, Any]:
    return {
        key: value if key in TEXTS else float(value) if key in SECONDS else int(value) for key, value in row.items()
    }


def _started(run: RunRecord) -> tuple[str, str]:
    return str(run.environment.get("started", "")), str(run.folder)

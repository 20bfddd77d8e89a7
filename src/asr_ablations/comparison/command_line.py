"""The command that made a sweep, as a reader would type it."""

import itertools
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from asr_ablations.runs.reader import UnreadableFileError, read_sweep
from asr_ablations.runs.record import RunRecord
from asr_ablations.tools.paths import REPOSITORY

SCRIPT = "src/train.py"
ELSEWHERE = ("outputs", "workers", "progress", "sweep")
"""Keys of a machine or a moment, which a reader sets as they like."""


def typed(sweep: Path, runs: Sequence[RunRecord]) -> list[str]:
    """The lines that make the runs of a sweep's folder: what its manifest says was typed, else what follows from the
    runs. Paths of the machine that it ran on are left out or stand as <folder>.
    """
    try:
        told = read_sweep(sweep)["command"]
    except (FileNotFoundError, UnreadableFileError, KeyError):
        return _derived(sweep, runs)
    arguments = list(map(str, told))
    script = next((number for number, one in enumerate(arguments) if one.endswith(".py")), None)
    if script is None:
        return [_line(arguments)]
    return [_line(arguments[script + 1 :], f"src/{Path(arguments[script]).name}")]


def _derived(sweep: Path, runs: Sequence[RunRecord]) -> list[str]:
    """One line where the runs are every combination of what they vary, else one a run."""
    file = _file(sweep, runs)
    asked = [dict(_split(override) for override in run.overrides) for run in runs]
    keys = list(dict.fromkeys(key for one in asked for key in one))
    values = {key: list(dict.fromkeys(one[key] for one in asked if key in one)) for key in keys}
    combinations = set(itertools.product(*values.values()))
    if len(runs) < 2 or {tuple(one.get(key) for key in keys) for one in asked} != combinations:
        return list(dict.fromkeys(_line([*file, *run.overrides]) for run in runs))
    planned = _planned(file)
    chosen = {key: ",".join(found) for key, found in values.items()}
    return [_line(["-m", *file, *(f"{key}={value}" for key, value in chosen.items() if planned.get(key) != value)])]


def _file(sweep: Path, runs: Sequence[RunRecord]) -> list[str]:
    """The options that name the sweep file, after which a sweep's folder is called; none where no file was used."""
    declared = any(run.config.get("ablation") for run in runs)
    if not declared or any(one.startswith("ablation") for run in runs for one in run.overrides):
        return []
    ours = (REPOSITORY / "sweeps" / f"{sweep.name}.yaml").exists()
    return ["-cd", "sweeps" if ours else "<folder>", "-cn", sweep.name]


def _planned(file: Sequence[str]) -> dict[str, str]:
    """What a sweep file of the repository varies by itself."""
    if "sweeps" not in file:
        return {}
    told: Any = yaml.safe_load((REPOSITORY / "sweeps" / f"{file[-1]}.yaml").read_text(encoding="utf-8"))
    found = ((told.get("hydra") or {}).get("sweeper") or {}).get("params") or {}
    return {str(key): re.sub(r"\s*,\s*", ",", str(value)) for key, value in found.items()}


def _split(override: str) -> tuple[str, str]:
    key, _, value = override.partition("=")
    return key, value


def _line(arguments: Sequence[str], script: str = SCRIPT) -> str:
    words = [_plain(one) for one in arguments if _split(one)[0].lstrip("+~") not in ELSEWHERE]
    return " ".join(["python", script, *(word if "<folder>" in word else shlex.quote(word) for word in words)])


def _plain(argument: str) -> str:
    """Without absolute paths: within the repository they are relative, elsewhere they are a reader's own."""
    inside = argument.replace(f"{REPOSITORY}/", "")
    return re.sub(r"(^|=|\[|,)/[^,\]]*", r"\1<folder>", inside)

"""The command that starts a sweep again, as a reader would type it."""

import itertools
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import yaml

from asr_ablations.runs.reader import UnreadableFileError, read_sweep
from asr_ablations.tools.files import REPOSITORY
from asr_verdicts.files import Json
from asr_verdicts.record import Record

SCRIPT = "src/train.py"
LOCAL_KEYS = ("outputs", "workers", "progress", "sweep")
"""Keys that belong to a machine or a moment: readers choose their own."""


def sweep_commands(sweep: Path, runs: Sequence[Record]) -> list[str]:
    """The lines that start the runs in a sweep's folder: the command in its manifest, else one that follows from the
    runs. Paths of the machine that it ran on are left out or stand as <folder>.
    """
    try:
        arguments = [str(argument) for argument in read_sweep(sweep)["command"]]
    except (FileNotFoundError, UnreadableFileError, KeyError):
        return _derived(sweep, runs)
    script = next((number for number, argument in enumerate(arguments) if argument.endswith(".py")), None)
    if script is None:
        return [_line(arguments)]
    return [_line(arguments[script + 1 :], f"src/{Path(arguments[script]).name}")]


def _derived(sweep: Path, runs: Sequence[Record]) -> list[str]:
    """A single line where the runs are every combination of what they vary, else a line per run."""
    file = _file_options(sweep, runs)
    overrides = [dict(_split(override) for override in run.overrides) for run in runs]
    keys = list(dict.fromkeys(key for of_run in overrides for key in of_run))
    values = {key: list(dict.fromkeys(of_run[key] for of_run in overrides if key in of_run)) for key in keys}
    combinations = set(itertools.product(*values.values()))
    if len(runs) < 2 or {tuple(of_run.get(key) for key in keys) for of_run in overrides} != combinations:
        return list(dict.fromkeys(_line([*file, *run.overrides]) for run in runs))
    planned = _planned(file)
    chosen = {key: ",".join(options) for key, options in values.items()}
    return [_line(["-m", *file, *(f"{key}={value}" for key, value in chosen.items() if planned.get(key) != value)])]


def _file_options(sweep: Path, runs: Sequence[Record]) -> list[str]:
    """The options that name the sweep file, after which a sweep's folder is called; empty where no file was used."""
    declared = any(run.config.get("ablation") for run in runs)
    if not declared or any(line.startswith("ablation") for run in runs for line in run.overrides):
        return []
    ours = (REPOSITORY / "sweeps" / f"{sweep.name}.yaml").exists()
    return ["-cd", "sweeps" if ours else "<folder>", "-cn", sweep.name]


def _planned(file: Sequence[str]) -> dict[str, str]:
    """The keys that a sweep file of the repository varies by itself."""
    if "sweeps" not in file:
        return {}
    content: Json = yaml.safe_load((REPOSITORY / "sweeps" / f"{file[-1]}.yaml").read_text(encoding="utf-8"))
    params = ((content.get("hydra") or {}).get("sweeper") or {}).get("params") or {}
    return {str(key): re.sub(r"\s*,\s*", ",", str(value)) for key, value in params.items()}


def _split(override: str) -> tuple[str, str]:
    key, _, value = override.partition("=")
    return key, value


def _line(arguments: Sequence[str], script: str = SCRIPT) -> str:
    words = [_portable(argument) for argument in arguments if _split(argument)[0].lstrip("+~") not in LOCAL_KEYS]
    return " ".join(["python", script, *(word if "<folder>" in word else shlex.quote(word) for word in words)])


def _portable(argument: str) -> str:
    """The argument without absolute paths: within the repository they become relative, elsewhere <folder>."""
    inside = argument.replace(f"{REPOSITORY}/", "")
    return re.sub(r"(^|=|\[|,)/[^,\]]*", r"\1<folder>", inside)

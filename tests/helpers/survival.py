"""Sweeps that tests disturb: started, finished, and everything of their results that is no time."""

import json
from pathlib import Path
from typing import Any

import psutil

from asr_ablations.tools.files import REPOSITORY
from tests.helpers import interpreter, run_results
from tests.helpers.command import SHRUNKEN, clean_environment, run_folders
from tests.helpers.interpreter import Command
from tests.helpers.processes import living_in

PLACE = "place"
TRAIN = ["src/train.py", "-m", *SHRUNKEN, "sweep=s", "checkpoint_minutes=0.001"]
CSV = "logger=csv"


def start(arguments: list[str], corpora: Path, folder: Path, **options: Any) -> Command:
    """The command, with a current folder by which all that it starts is found, whatever becomes of its parent."""
    (folder / PLACE).mkdir(parents=True, exist_ok=True)
    environment = clean_environment(corpora, folder, OMP_NUM_THREADS="1")
    script, *words = arguments
    return interpreter.start([REPOSITORY / script, *words, f"outputs={folder}"], environment, folder / PLACE, **options)


def finish(command: Command) -> tuple[int, str, str]:
    with command:
        done = command.finish()
    return done.returncode, done.stdout, done.stderr


def succeed(command: Command) -> str:
    """What it printed."""
    code, output, errors = finish(command)
    assert code == 0, errors
    return output


def alive(folder: Path) -> list[psutil.Process]:
    """Every process that a command on this folder has left running."""
    return living_in(folder / PLACE)


def status(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "status.json").read_text())
    return content


def results(outputs: Path) -> dict[str, Any]:
    """Everything in every run under a folder that is no time, by the run's name; tensors as lists."""
    return {folder.name: result(folder) for folder in run_folders(outputs)}


def result(folder: Path) -> dict[str, Any]:
    return {"status": status(folder)["status"], **_plain(run_results.results(folder))}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else getattr(value, "tolist", lambda: value)()

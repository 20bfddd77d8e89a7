"""What a campaign kills: commands whose folder and result are known, so that a killed one can be compared."""

import csv
import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import yaml

from tests.helpers.command import SHORT_SPEECH, SHRUNKEN, run_folders
from tests.helpers.run_results import results

TRAIN = [*SHRUNKEN, "logger=csv", "progress=false", "checkpoint_minutes=0.001"]
ARMS = ["rnn=lstm,gru", "sweep=s"]
COMMAND, ARM, BESIDE = "the command", "an arm", "one of two launchers"


@dataclass(frozen=True)
class Victim:
    """A command that is killed.

    arguments: of the command in the case's folder; watched: below that folder, where progress is seen; result: what
    must be equal, by the case's folder; own_corpora: whether it generates its corpus itself; kills: what of it.
    """

    name: str
    arguments: Callable[[Path], list[str]]
    watched: str
    result: Callable[[Path], object]
    own_corpora: bool = False
    kills: str = COMMAND


def victims(trained: Path) -> list[Victim]:
    """All of them. trained: a finished run, of which those that decode take a copy."""

    def own_run(folder: Path) -> str:
        if not (copy := folder / "run").exists():
            shutil.copytree(trained, copy)
        return f"run={copy}"

    beam = ["decoder=beam", "untrained=decode", "processes=2"]
    return [
        Victim("run", lambda f: ["src/train.py", *TRAIN, f"outputs={f}/outputs"], "outputs", runs),
        Victim("sweep", lambda f: ["src/train.py", "-m", *TRAIN, *ARMS, f"outputs={f}/outputs"], "outputs", runs),
        Victim(
            *("arm of a sweep", lambda f: ["src/train.py", "-m", *TRAIN, *ARMS, f"outputs={f}/outputs"]),
            *("outputs", runs), kills=ARM,
        ),
        Victim(
            *("two launchers", lambda f: ["src/train.py", "-m", *TRAIN, *ARMS, f"outputs={f}/outputs"]),
            *("outputs", runs), kills=BESIDE,
        ),
        Victim(
            *("corpus generation", lambda f: ["src/prepare.py", *SHORT_SPEECH, f"outputs={f}/outputs"]),
            *("corpora", lambda f: digests(f / "corpora")), own_corpora=True,
        ),
        Victim(
            "cache building",
            lambda f: ["src/train.py", *TRAIN, "max_epochs=1", f"cache.root={f}/cache", f"outputs={f}/outputs"],
            "cache", lambda f: [digests(f / "cache"), runs(f)],
        ),
        Victim(
            "evaluation", lambda f: ["src/evaluate.py", own_run(f), *beam, "decoder.beam_width=4"], "run",
            evaluations,
        ),
        Victim(
            "decoding of several widths",
            lambda f: ["src/evaluate.py", "-m", own_run(f), *beam, "decoder.beam_width=1,2,8"], "run/evaluations",
            evaluations,
        ),
        Victim(
            "language model", lambda f: ["src/lm.py", *SHORT_SPEECH, "lm.program=null", f"outputs={f}/outputs"],
            "outputs", lambda f: digests(f / "outputs", ("*.arpa", "*.txt")),
        ),
    ]  # fmt: skip


def runs(folder: Path) -> dict[str, object]:
    """The results of all runs of a case, by name."""
    return {run.name: results(run) for run in run_folders(folder / "outputs")}


def evaluations(folder: Path) -> dict[str, object]:
    """Log-probabilities, transcripts and rates to the byte."""
    patterns = ("logprobs/*.npy", "evaluations/*.csv", "evaluations/*.txt", "evaluations/*.json")
    return {**digests(folder / "run", patterns)}


def digests(folder: Path, patterns: tuple[str, ...] = ("**/*",)) -> dict[str, str]:
    """SHA-256 of every file of a folder by its path there: but locks and indexes."""
    files = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
    names = {str(path.relative_to(folder)): path for path in files if path.suffix != ".lock"}
    return {
        name: hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in names.items()
        if not name.startswith("index/")
    }


def half_files(folder: Path) -> list[str]:
    """Files of a run under their final names that cannot be read whole, each with the reason."""
    damaged = []
    for path in folder.rglob("*"):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)  # a folder not named yet, too
        if path.is_file() and path.suffix in READERS and not hidden:
            try:
                READERS[path.suffix](path)
            except Exception as error:
                damaged.append(f"{path.relative_to(folder)}: {type(error).__name__}")
    return damaged


def temporary(folder: Path) -> list[str]:
    """What a command left under a temporary name, as whole_file gives it."""
    return [str(path.relative_to(folder)) for path in folder.rglob(".*.[0-9]*")]


def _whole_table(path: Path) -> None:
    with path.open(newline="", encoding="utf-8") as file:
        widths = {len(row) for row in csv.reader(file)}
    if len(widths) > 1:
        raise ValueError("rows of several lengths")


READERS: dict[str, Callable[[Path], object]] = {
    ".json": lambda path: json.loads(path.read_text(encoding="utf-8")),
    ".yaml": lambda path: yaml.safe_load(path.read_text(encoding="utf-8")),
    ".csv": _whole_table,
    ".ckpt": lambda path: torch.load(path, weights_only=True),
}

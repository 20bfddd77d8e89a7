"""What a campaign kills: commands whose folder and result are known, so that a killed one can be compared."""

import csv
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
import yaml

from tests.helpers.command import SHORT_SPEECH, SHRUNKEN, run_folders
from tests.helpers.run_results import results

TRAIN = [*SHRUNKEN, "logger=csv", "progress=false", "checkpoint_minutes=0.001"]
COMMAND, ARM, BESIDE = "the command", "an arm", "one of two launchers"


class Victim(NamedTuple):
    """A command that is killed: its words in the case's folder, where progress is seen below that, and what must be
    equal. own_corpora: whether it generates its corpus itself; kills: what of it.
    """

    name: str
    words: Callable[[Path], list[str]]
    watched: str
    result: Callable[[Path], object]
    own_corpora: bool = False
    kills: str = COMMAND


def victims(trained: Path) -> list[Victim]:
    """All of them. trained: a finished run, of which those that decode take a copy."""

    def train(*more: str) -> Callable[[Path], list[str]]:
        return lambda folder: ["src/train.py", *more, *TRAIN, f"outputs={folder}/outputs"]

    def decode(*more: str) -> Callable[[Path], list[str]]:
        def words(folder: Path) -> list[str]:
            if not (copy := folder / "run").exists():
                shutil.copytree(trained, copy)
            return ["src/evaluate.py", *more, f"run={copy}", "decoder=beam", "untrained=decode", "processes=2"]

        return words

    sweep = train("-m", "rnn=lstm,gru", "sweep=s")
    return [
        Victim("run", train(), "outputs", runs),
        Victim("sweep", sweep, "outputs", runs),
        Victim("arm of a sweep", sweep, "outputs", runs, kills=ARM),
        Victim("two launchers", sweep, "outputs", runs, kills=BESIDE),
        Victim(
            "corpus generation", lambda folder: ["src/prepare.py", *SHORT_SPEECH, f"outputs={folder}/outputs"],
            "corpora", lambda folder: digests(folder / "corpora", "**/*"), own_corpora=True,
        ),
        Victim(
            "cache building", lambda folder: [*train()(folder), f"cache.root={folder}/cache"], "cache",
            lambda folder: [digests(folder / "cache", "**/*"), runs(folder)],
        ),
        Victim("evaluation", decode("decoder.beam_width=4"), "run", evaluations),
        Victim("decoding of several widths", decode("-m", "decoder.beam_width=1,2,8"), "run/evaluations", evaluations),
        Victim(
            "language model",
            lambda folder: ["src/lm.py", *SHORT_SPEECH, "lm.program=null", f"outputs={folder}/outputs"],
            "outputs", lambda folder: digests(folder / "outputs", "*.arpa", "*.txt"),
        ),
    ]  # fmt: skip


def runs(folder: Path) -> dict[str, object]:
    """The results of all runs of a case, by name."""
    return {run.name: results(run) for run in run_folders(folder / "outputs")}


def evaluations(folder: Path) -> dict[str, str]:
    """Log-probabilities, transcripts and rates to the byte."""
    return digests(folder / "run", "logprobs/*.npy", *(f"evaluations/*.{ending}" for ending in ("csv", "txt", "json")))


def digests(folder: Path, *patterns: str) -> dict[str, str]:
    """SHA-256 of every file of a folder by its path there: but locks and indexes."""
    files = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
    names = {str(path.relative_to(folder)): path for path in files if path.suffix != ".lock"}
    own = {name: path for name, path in names.items() if not name.startswith("index/")}
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in own.items()}


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
        if len({len(row) for row in csv.reader(file)}) > 1:
            raise ValueError("rows of several lengths")


READERS: dict[str, Callable[[Path], object]] = {
    ".json": lambda path: json.loads(path.read_text(encoding="utf-8")),
    ".yaml": lambda path: yaml.safe_load(path.read_text(encoding="utf-8")),
    ".csv": _whole_table, ".ckpt": lambda path: torch.load(path, weights_only=True),
}  # fmt: skip

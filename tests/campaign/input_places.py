"""Bad input: the table of cases, and what its rows are about: corpora, models, a finished sweep, copies for a case.

The table is in tests/campaign/inputs: a file per command, a row per case, `arguments | exit codes | words | shell`,
with commas between exit codes, ; between words that the output must hold, and lines of a shell that run before. Of the
arguments, NAME=value in front goes into the environment, and `< file` is the standard input. What stands in <angle
brackets> is filled in by InputPlaces.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from asr_ablations.tools.files import REPOSITORY
from tests.campaign.commands import Result, environment, run_command
from tests.conftest import write_split
from tests.helpers.layouts import write_layouts
from tests.helpers.support import tiny_overrides

TABLE = Path(__file__).parent / "inputs"
FINE = "fine"
OUTCOMES = (FINE, "traceback", "silent", "wrong exit code", "wrong message", "hang", "crash", "executed")
"""silent: exit code 0 where a refusal is expected; crash: ended by a signal; executed: a file was made that only
foreign code makes.
"""


class Case(NamedTuple):
    """A row: what is typed after src/<command>.py, and what is expected of it."""

    command: str
    row: int
    typed: str
    codes: tuple[int, ...]
    words: tuple[str, ...]
    shell: str


@dataclass
class Words:
    """A row's arguments taken apart, every placeholder filled in."""

    arguments: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    stdin: Path | None = None


def read_table(folder: Path = TABLE) -> list[Case]:
    """Every row of every file."""
    cases = []
    for path in sorted(folder.glob("*.txt")):
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
            if line.strip() and not line.startswith("#"):
                typed, codes, words, *shell = (cell.strip() for cell in line.split("|", 3))
                told = tuple(word.strip() for word in words.split(";") if word.strip())
                cases.append(Case(path.stem, number, typed, tuple(map(int, codes.split(","))), told, "".join(shell)))
    return cases


def taken_apart(text: str) -> Words:
    """The arguments, the variables before them, and the file after a <."""
    words = Words(shlex.split(text))
    if "<" in words.arguments:
        place = words.arguments.index("<")
        words.stdin = Path(words.arguments[place + 1])
        del words.arguments[place : place + 2]
    while words.arguments and re.match(r"[A-Z_]+=", words.arguments[0]):
        name, _, value = words.arguments.pop(0).partition("=")
        words.environment[name] = value
    return words


def judge(case: Case, result: Result, words: tuple[str, ...], executed: bool) -> str:
    """The case's outcome. words: those of the case, placeholders filled in."""
    printed = result.out + result.errors
    if executed or result.code is None:
        return "executed" if executed else "hang"
    if result.code < 0:
        return "crash"
    if "Traceback (most recent call last)" in printed:
        return "traceback"
    if "\x1b" in printed:  # none of the commands has a terminal here: it came with the input
        return "wrong message"
    if result.code not in case.codes:
        return "wrong exit code" if result.code else "silent"
    lines = result.errors.strip().splitlines()
    # the error is the last line; what it sums up, as the utterances that are bad, may stand above it
    told = bool(lines) and (lines[-1].startswith("error: ") or lines[0].startswith("usage:"))
    return FINE if (told or result.code != 2) and all(word in printed for word in words) else "wrong message"


SPLITS = {"train": (2, 5, 10), "dev": (2, 3, 20), "test": (1, 2, 30)}
"""Speakers, utterances of each, and the first speaker's number, of the corpus of tones."""
QUICK = ["width=8", "layers=1", "max_epochs=1", "logger=csv", "progress=false", "gpus=0", "threads=1"]
BEFORE_OTHERS = {"train", "prepare", "benchmark", "lm"}
"""The commands that take the keys of a training: corpus and sizes are given before what a case types."""


class InputPlaces:
    """The folder of everything that rows name in <angle brackets>.

    <trained>, <manifest>, <kaldi>, <words.arpa> and so on lie ready; <noise> is a recording; <sweep> a finished sweep
    of two runs; <sweeps> the checkout's own. For a case alone: <scratch>, an empty folder; <own>, a copy of the sweep,
    of which <one> is the first run and <same> the overrides that made it; <own-manifest> and <own-kaldi>, copies of
    corpora.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.ready, self.started_in = folder, folder / "ready", folder / "started-in"
        for split, (speakers, utterances, first) in SPLITS.items():
            write_split(folder / "tones" / split, speakers, utterances, first)
        write_layouts(folder / "tones", self.ready)
        self.corpus = [*tiny_overrides(self.ready / "tones"), *QUICK]
        self.environment = environment(folder / "corpora", folder)
        made = run_command(["src/train.py", "-m", *self._same(self.ready), "seed=0,1"], self.environment)
        if made.code != 0:
            raise RuntimeError(f"the sweep that cases are about cannot be trained: {made.errors}")

    def _same(self, outputs: Path) -> list[str]:
        return [*self.corpus, "sweep=s", f"outputs={outputs}"]

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """An empty folder for a case, removed afterwards whatever it has become, and with it the one that the command
        is started in, where a wrong folder as `outputs=x` lands.
        """
        folders = (self.folder / "case", self.started_in)
        for empty in folders:
            empty.mkdir()
        try:
            yield folders[0]
        finally:
            for used in folders:
                shutil.rmtree(used, ignore_errors=True)

    def words(self, case: Case, scratch: Path) -> Words:
        """Its arguments, of a training those that choose a small corpus included; runs its lines of shell."""
        if case.shell:
            shell = ["sh", "-c", self.filled(case.shell, scratch)]
            subprocess.run(shell, cwd=scratch, check=True, capture_output=True, env={**os.environ, "LC_ALL": "C.UTF-8"})
        words = taken_apart(self.filled(case.typed, scratch))
        given = words.arguments
        if case.command in BEFORE_OTHERS and "<same>" not in case.typed:
            options = [] if {"--config-name", "-cd"} & set(given) else self._small(case, given, scratch)
            words.arguments = ["-m", *options, *given[1:]] if given[:1] == ["-m"] else [*options, *given]
        return words

    def _small(self, case: Case, given: list[str], scratch: Path) -> list[str]:
        keys = {word.partition("=")[0].lstrip("+~") for word in given}
        built_in = case.command == "prepare" and any(word.startswith("data.") for word in given)
        own_data = built_in or any(word.startswith("data=") for word in given)
        small = [word for word in (QUICK if own_data else self.corpus) if word.partition("=")[0] not in keys]
        named = any(word.startswith("outputs=") for word in given)
        return small if named else [*small, f"outputs={scratch}/outputs"]

    def filled(self, text: str, scratch: Path) -> str:
        """A text with its placeholders filled in; what a case has for itself is copied when it is first named."""
        return re.sub(r"<([\w.-]+)>", lambda found: self._place(found[1], scratch), text)

    def _place(self, name: str, scratch: Path) -> str:
        sweep = self.ready / "s"
        standing = {"scratch": scratch, "sweeps": REPOSITORY / "sweeps", "sweep": sweep}
        if name in ("own", "one", "same"):
            own = _copied(sweep, scratch / "outputs" / "s")
            first = min(path.parent for path in sweep.glob("*/config.yaml"))
            (seed,) = re.findall(r"^seed=.*$", (first / "overrides").read_text(), re.MULTILINE)
            same = shlex.join([*self._same(scratch / "outputs"), seed])
            return {"own": str(own), "one": str(own / first.name), "same": same}[name]
        if name.startswith("own-"):
            corpus = name.removeprefix("own-")
            return str(_copied(self.ready / corpus, scratch / corpus))
        place = {**standing, "noise": self.ready / "quiet" / "noise.wav"}.get(name, self.ready / name)
        if not place.exists():
            raise ValueError(f"<{name}> is nothing that a row can name: there are {sorted(os.listdir(self.ready))}")
        return str(place)


def _copied(source: Path, target: Path) -> Path:
    if not target.exists():
        shutil.copytree(source, target)
    return target

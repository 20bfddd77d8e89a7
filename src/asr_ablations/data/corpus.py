"""What all corpora share: splits by name, utterances with what is wrong with them, a word on what is missing."""

import math
import os
import shlex
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path

from asr_ablations.data import audio_checks as hearing
from asr_ablations.data.utterance import Utterance
from asr_ablations.tools.errors import UsageError, choices


class Corpus(ABC):
    """train, validation, test: names of splits under `root`, one or several.

    language: of the text. max_seconds: longer utterances are left out of training, null for none. on_bad: `stop`
    refuses a corpus with utterances that cannot be used, `skip` leaves them out and says so.
    """

    def __init__(
        self,
        *,
        root: str | Path | None,
        train: str | Sequence[str],
        validation: str | Sequence[str],
        test: str | Sequence[str],
        language: str,
        max_seconds: float | None,
        on_bad: str,
    ) -> None:
        self.root = Path(root).expanduser() if root else None
        self.asked = {"train": train, "validation": validation, "test": test}
        self.train, self.validation, self.test = listed(train), listed(validation), listed(test)
        for role in self.asked:
            if not getattr(self, role):
                raise choices(f"data.{role}", self.asked[role], "the name of at least one split")
        if max_seconds is not None and not (isinstance(max_seconds, (int, float)) and max_seconds > 0):
            raise choices("data.max_seconds", max_seconds, "seconds, above 0, or null for no limit")
        if on_bad not in ("stop", "skip"):
            raise choices("data.on_bad", on_bad, ["stop", "skip"])
        self.language, self.max_seconds, self.on_bad = language, max_seconds, on_bad
        self.thorough = on_bad == "skip"  # what is to be left out must be known before training
        self._read: dict[str, list[Utterance]] = {}

    @abstractmethod
    def prepare(self) -> None:
        """See that every split is there. Raises UsageError that names what is missing and how to come by it."""

    @abstractmethod
    def find(self, split: str) -> list[Utterance]:
        """The utterances that a split's texts name; no audio is opened."""

    def fetch(self) -> None:
        """Make or download what is not there, where that can be done, and see that every split is there."""
        self.prepare()

    def read(self, split: str) -> list[Utterance]:
        """The utterances of one split, the faulty ones among them, by the headers of their files and what earlier runs
        heard; where the corpus is `thorough`, all audio is decoded, once for all runs.
        """
        if split not in self._read:
            found = hearing.inspect(self.find(split), f"reading {split}")
            self._read[split] = hearing.listen(found, f"decoding {split}") if self.thorough else hearing.recall(found)
        return self._read[split]

    def folders(self) -> list[str]:
        """Every split once, training first."""
        return list(dict.fromkeys([*self.train, *self.validation, *self.test]))

    def prepare_command(self) -> str:
        """The command line that prepares this corpus. A corpus is the file of its name."""
        name = type(self).__module__.rpartition(".")[2]
        roles = [f"data.{role}={_override(value)}" for role, value in self.asked.items()]
        words = ["python", "src/prepare.py", f"data={name}", f"data.root={self.root or 'FOLDER'}", *roles]
        return " ".join(map(shlex.quote, words))


def listed(names: str | Sequence[str]) -> list[str]:
    """One name or several as a list."""
    return [names] if isinstance(names, str) else list(names)


def _override(value: str | Sequence[str]) -> str:
    return value if isinstance(value, str) else f"[{','.join(value)}]"


def whole_file(id_: str, speaker: str, audio: Path, text: str) -> Utterance:
    """An utterance that is all of its file."""
    return Utterance(id_, speaker, audio, 0.0, math.inf, text)


def faulty(id_: str, path: Path, fault: str) -> Utterance:
    """Stands for what should have been an utterance."""
    return Utterance(id_, "", path, 0.0, 0.0, "", fault=fault)


def folders_in(folder: Path) -> Iterator[Path | Utterance]:
    """The folders in a folder in order of their names; a fault for one that cannot be looked into."""
    for path in entries(folder):
        if isinstance(path, Utterance) or path.is_dir():
            yield path


def entries(folder: Path) -> list[Path | Utterance]:
    """What lies in a folder, in order of the names; one fault where it cannot be looked into. Path.glob would pass
    over such a folder in silence.
    """
    try:
        return [folder / name for name in sorted(os.listdir(folder))]
    except OSError as error:
        return [faulty(str(folder), folder, f"unreadable folder: {error.strerror}")]


def text_of(path: Path) -> str:
    """A UTF-8 file's content. Raises UsageError where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error

"""Base classes for corpora, which list the utterances of named splits and prepare missing splits."""

import gzip
import math
import os
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypedDict, TypeVar

from asr_ablations.data.index import SplitIndex, note
from asr_ablations.data.subset import Subset
from asr_ablations.data.utterances import Utterance, Utterances
from asr_ablations.tools.checks import number
from asr_ablations.tools.files import expanded, format_override, typed
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.files import is_regular
from asr_verdicts.text import clean, decode, lower, normalisation
from asr_verdicts.texts.speakers import speakers_of

if TYPE_CHECKING:
    from typing_extensions import Unpack


class CorpusOptions(TypedDict):
    """The constructor arguments that all corpora share. The docstring of Corpus describes them."""

    root: str | Path | None
    train: str | Sequence[str]
    validation: str | Sequence[str]
    test: str | Sequence[str]
    language: str
    max_seconds: float | None
    max_evaluated_seconds: float | None
    subset: Mapping[str, object] | None
    normalise: str
    on_bad: str


class Corpus(ABC):
    """A data set with splits for training, validation and test.

    - train, validation, test: one or more names of splits under `root`
    - language: language code of the transcripts
    - normalise: normalisation of all transcripts: none, case (lower case), punctuation (lower case, no punctuation) or
      whisper (Whisper's English normalizer)
    - max_seconds, max_evaluated_seconds: maximum seconds per utterance in training, and in validation and test;
      longer utterances are left out; null disables the limit
    - subset: `hours` and `seed` of a random subset of the training set, or null to use the whole set
    - on_bad: `stop` to refuse a corpus with unusable utterances, or `skip` to leave them out with a warning
    """

    licence: ClassVar[str] = "to be added by you, because the recordings are your own files"
    """Licence of the recordings and the source of this information, for a model card."""
    generated: ClassVar[bool] = False
    """True if `prepare` generates missing splits. This may take minutes."""

    def __init__(
        self,
        *,
        root: str | Path | None,
        train: str | Sequence[str],
        validation: str | Sequence[str],
        test: str | Sequence[str],
        language: str,
        max_seconds: float | None,
        max_evaluated_seconds: float | None,
        on_bad: str,
        normalise: str = "case",  # has a default, because users' older yaml files may lack it
        subset: Mapping[str, object] | None = None,
    ) -> None:
        self.root = expanded(root, "data.root") if root else None
        self.requested = {"train": train, "validation": validation, "test": test}
        self.train, self.validation, self.test = (
            listed(f"data.{role}", names) for role, names in self.requested.items()
        )
        for key, seconds in {"max_seconds": max_seconds, "max_evaluated_seconds": max_evaluated_seconds}.items():
            if seconds is not None:
                number(f"data.{key}", seconds, above=0, also="null for no limit")
        if on_bad not in ("stop", "skip"):
            raise choices("data.on_bad", on_bad, ["stop", "skip"])
        self.language, self.normalise, self.on_bad = language, normalise, on_bad
        self.normalised = normalisation(normalise, language, "data.normalise", lower)  # `fold` would change ß and ς
        self.max_seconds, self.max_evaluated_seconds = max_seconds, max_evaluated_seconds
        self.subset = None if subset is None else Subset(subset)
        self.thorough = on_bad == "skip"  # to find all unusable utterances before training
        self._read: dict[str, Utterances] = {}

    @abstractmethod
    def prepare(self) -> None:
        """Check that every split is present. Raises a UsageError that says which split is missing and how to get it."""

    @abstractmethod
    def find(self, split: str) -> list[Utterance]:
        """List the utterances in a split's transcript files, with unchanged transcripts, without opening audio files.

        Every run calls this method, unless it is decorated with `indexed`.
        """

    def check_splits(self, splits: Sequence[str]) -> None:
        """Raise UsageError if `train`, `validation` or `test` contains a name that is not in `splits`."""
        for role in self.requested:
            for name in getattr(self, role):
                if name not in splits:
                    raise choices(f"data.{role}", name, splits)

    def fetch(self) -> None:
        """Generate or download missing splits if possible, and then check that every split is present."""
        self.prepare()

    def read(self, split: str) -> Utterances:
        """Return a split's utterances, faulty or not. If `thorough` is set, decode all audio to find more faults."""
        if split not in self._read:
            names = getattr(type(self).find, "options", None)
            values = [getattr(self, name) for name in names or ()]
            options = [*(value(split) if callable(value) else value for value in values), self.language, self.normalise]
            if self.normalise == "whisper":
                options.append(version("whisper-normalizer"))
            index = SplitIndex(type(self), self.root, split, None if names is None else options)
            self._read[split] = index.read(lambda: self._find_normalised(split), self.thorough)
        return self._read[split]

    def _find_normalised(self, split: str) -> list[Utterance]:
        utterances = self.find(split)
        for row, u in enumerate(utterances):  # in place, to save memory if the corpus is large
            speaker, unit = clean(u.speaker), clean(u.unit)
            utterances[row] = replace(u, id=clean(u.id), speaker=speaker, text=self.normalised(u.text), unit=unit)
        return utterances

    def sets(self) -> list[str]:
        """Return the names of all sets: "train", from one or more splits, and each validation and test split."""
        return list(dict.fromkeys(["train", *self.validation, *self.test]))

    def read_set(self, name: str) -> Utterances:
        """Return a set's utterances; for "train", only those in `subset`. Raises UsageError if that is too large."""
        if name != "train":
            return self.read(name)
        training = Utterances.join([self.read(split) for split in self.train])
        return training if self.subset is None else self.subset.draw(training, self.max_seconds)

    def folders(self) -> list[str]:
        """Return the names of all splits, starting with the training splits."""
        return list(dict.fromkeys([*self.train, *self.validation, *self.test]))

    def prepare_command(self) -> str:
        """Return the command that prepares this corpus."""
        name = type(self).__module__.rpartition(".")[2]  # the module and the yaml file in conf/data have the same name
        values = {"root": self.root or "FOLDER", **self.requested}
        return typed("prepare", f"data={name}", *(format_override(f"data.{key}", values[key]) for key in values))


Find = TypeVar("Find", bound=Callable[..., list[Utterance]])


def indexed(*options: str) -> Callable[[Find], Find]:
    """Mark a `find` method whose result may be stored in an index and reused by later runs.

    The method must read files with `text_of` and list folders with `entries`. Apart from these, its result may depend
    only on the split and on the corpus attributes in `options`. Attributes that are methods are called with the split.
    """

    def mark(find: Find) -> Find:
        setattr(find, "options", options)  # noqa: B010
        return find

    return mark


def listed(key: str, names: object) -> list[str]:
    """Return a name or several names as a list. Raises UsageError if the list is empty or contains a non-string."""
    several = [names] if isinstance(names, str) else names
    if not isinstance(several, (list, tuple)) or not several or not all(isinstance(n, str) and n for n in several):
        raise choices(key, names, "the name of at least one split")
    return list(several)


def file_utterance(id_: str, speaker: str, audio: Path, text: str) -> Utterance:
    """Return an utterance that covers a whole audio file."""
    return Utterance(id_, speaker, audio, 0.0, math.inf, text)


def faulty(id_: str, path: Path, fault: str) -> Utterance:
    """Return a placeholder utterance that records missing or unreadable data as its fault."""
    return Utterance(id_, "", path, 0.0, 0.0, "", fault=fault)


def list_folders(folder: Path) -> list[Path]:
    """Return the subfolders of a folder, sorted by name. Raises UsageError if the folder cannot be read."""
    return [path for path in entries(folder) if path.is_dir()]


def entries(folder: Path) -> list[Path]:
    """Return the paths in a folder, sorted by name. Raises UsageError if the folder cannot be read."""
    note(folder)
    try:
        return [folder / name for name in sorted(os.listdir(folder))]  # Path.glob would skip an unreadable folder
    except OSError as error:
        raise UsageError(f"cannot read the folder {folder}: {error.strerror}") from error


def text_of(path: Path) -> str:
    """Read a UTF-8 text file, which gzip may have compressed. Raises UsageError if it cannot be read or decoded."""
    try:
        if not is_regular(path):
            raise UsageError(f"cannot read {path}: it is not a regular file")
        note(path)
        content = path.read_bytes()
        text = decode(gzip.decompress(content) if path.suffix == ".gz" else content, path)
        return text.replace("\r\n", "\n").replace("\r", "\n")
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"cannot read {path}: {error}") from error


UNKNOWN_SPEAKERS = ("utterance", "file")
"""Kinds of units that serve as speakers if the true speakers are unknown."""


class Paths(Corpus):
    """A corpus whose splits are paths relative to `root`, or to the current folder if `root` is null.

    Splits are named after their file or folder, without the extension. speaker_of: regular expression whose first group
    matches the speaker in an utterance id; null to use the speakers that the files contain.
    """

    root: Path
    needed: ClassVar[Sequence[str]] = ("",)
    """Files that must exist under every path; "" for the path itself."""
    layout: ClassVar[str]
    """Description of the expected file or folder, for the error message if it is missing."""

    def __init__(self, *, speaker_of: str | None, **options: "Unpack[CorpusOptions]") -> None:
        if speaker_of is not None:
            speakers_of([], speaker_of, "data.speaker_of")
        self.speaker_of = speaker_of
        options["root"] = options["root"] or "."
        super().__init__(**options)
        self.paths = name_paths(self.root, [*self.train, *self.validation, *self.test])
        names = {path: name for name, path in self.paths.items()}
        self.train, self.validation, self.test = (
            [names[path] for path in splits] for splits in (self.train, self.validation, self.test)
        )

    def prepare(self) -> None:
        for file in (self.root / path / name for path in self.paths.values() for name in self.needed):
            if not file.exists():
                raise self.missing(file)

    def missing(self, path: Path) -> UsageError:
        remedy = f"when it exists, check it with {self.prepare_command()}"
        return UsageError(f"{path} is missing: expected {self.layout}; {remedy}")

    def path(self, split: str) -> Path:
        return self.root / self.paths[split]

    def add_speakers(self, utterances: list[Utterance], recording: Callable[[Utterance], str]) -> list[Utterance]:
        """Set speakers from utterance ids if speaker_of is set; else give a unit to each utterance without a speaker.

        The unit is the recording if any recording has several utterances, and the utterance itself otherwise.
        recording: function that returns the name of an utterance's recording
        """
        spoken = [u for u in utterances if not u.fault]
        if self.speaker_of is not None:
            speakers = speakers_of([u.id for u in spoken], self.speaker_of, "data.speaker_of")
            return [u if u.fault else replace(u, speaker=speakers[u.id]) for u in utterances]
        several = len({u.audio for u in spoken}) < len(spoken)
        return [
            u
            if u.fault or u.speaker or u.unit
            else replace(u, unit=f"file {recording(u)}" if several else f"utterance {u.id}")
            for u in utterances
        ]


EXTENSION = re.compile(r"(?<=[^/])\.(jsonl?(\.gz)?|tsv|csv|parquet|arrow)$")
"""Extension of a file of utterances, which is not part of the set's name."""


def name_paths(root: Path, paths: Sequence[str]) -> dict[str, str]:
    """Return the paths, keyed by short, unique names. Raises UsageError if two paths are the same file."""
    unique = list(dict.fromkeys(paths))
    absolute = {path: expanded(root / path).resolve() for path in unique}
    stems = {path: Path(EXTENSION.sub("", str(full))) for path, full in absolute.items()}
    for candidates in (stems, absolute):  # add extensions and folders only to make names unique
        for depth in range(1, max((len(full.parts) for full in candidates.values()), default=1)):
            names = {"-".join(full.parts[-depth:]): path for path, full in candidates.items()}
            if len(names) == len(unique):
                return names
    raise UsageError(f"{', '.join(unique)}: expected different files")

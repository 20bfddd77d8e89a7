"""Utterances in files of texts, and reading a file into lines."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from asr_verdicts.errors import UsageError
from asr_verdicts.files import is_regular
from asr_verdicts.text import clean, decode

SHOWN = 5  # number of ids that a message lists
LONGEST_LINE = 64 << 20  # largest length of a line in bytes; even a whole table in one line of JSON is shorter


@dataclass(frozen=True, slots=True)
class Entry:
    """An utterance in a file. Every text and name passes through `clean` here.

    - text: reference in a file of references, hypothesis in other files
    - reference: reference in a file of hypotheses; None if the file has none
    - speaker, audio, unit: empty if unknown
    - unit: unit that was drawn independently if it is not the speaker, as in UtteranceRow
    - offset, duration: place in the recording in seconds; an infinite duration reaches to its end
    """

    id: str
    text: str
    reference: str | None = None
    speaker: str = ""
    audio: str = ""
    offset: float = 0.0
    duration: float = float("inf")
    unit: str = ""

    def __post_init__(self) -> None:
        for name in ("id", "text", "reference", "speaker", "unit"):
            if value := getattr(self, name):
                object.__setattr__(self, name, clean(value))


@dataclass(frozen=True)
class Texts:
    """The content of a file of texts.

    - source: path of the file
    - format: format in which the file was read
    - entries: utterances by id, in the order of the file
    - notes: notes for the user
    - columns: names of the columns that were read, if the file is a table
    """

    source: str
    format: str
    entries: dict[str, Entry]
    notes: list[str] = field(default_factory=list)
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reading:
    """How to read files.

    - references: whether the files contain references
    - set: set to read from a table with several sets
    - columns: names of a table's columns by their content, if they are not the usual names
    """

    references: bool = False
    set: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)


def lines_of(path: Path) -> list[tuple[int, str]]:
    """Return the lines of a file that are not empty, with their numbers from 1.

    Raises UsageError if the file is empty or is not text in UTF-8.
    """
    lines = [(number, text) for number, text in _decode_lines(path) if text.strip()]
    if not lines:
        raise UsageError(f"{path}: it is empty")
    return lines


def _decode_lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        if path.is_dir():
            raise UsageError(f"{path}: it is a folder; expected a file, or a pattern of files in quotes")
        if not is_regular(path):
            raise UsageError(f"{path}: it is not a regular file")
        with path.open("rb") as file:
            number = 0
            while line := file.readline(LONGEST_LINE + 1):
                number += 1
                if len(line) > LONGEST_LINE:
                    raise UsageError(
                        f"{path}:{number}: the line has more than {LONGEST_LINE >> 20} MB: not a transcript"
                    )
                text = decode(line, path, number).rstrip("\r\n")  # Windows ends lines with \r\n
                if "\r" in text:
                    raise UsageError(f"{path}:{number}: a carriage return in the middle; expected one utterance a line")
                yield number, text
    except FileNotFoundError as error:
        raise UsageError(f"{path}: there is no such file") from error
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def unique(path: Path, entries: Sequence[tuple[int, Entry]], hint: str = "") -> dict[str, Entry]:
    """Return the entries by id. hint: end of the error message for an id that occurs twice."""
    by_id: dict[str, Entry] = {}
    places: dict[str, int] = {}
    for number, entry in entries:
        if entry.id in by_id:
            where = f"{path}:{number}" if number else str(path)
            first = f"is in line {places[entry.id]} already" if number else "occurs twice"
            raise UsageError(f"{where}: the id {entry.id} {first}{hint}")
        by_id[entry.id], places[entry.id] = entry, number
    return by_id


def some_of(ids: Sequence[str]) -> str:
    """Describe ids in a message by their number and the first few."""
    more = f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else ""
    return f"{len(ids)} id{'s' * (len(ids) > 1)} ({', '.join(ids[:SHOWN])}{more})"

"""The utterances of a transcript file, and functions that split the file into lines."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from asr_verdicts.errors import UsageError
from asr_verdicts.files import is_regular
from asr_verdicts.text import clean, decode

SHOWN = 5  # number of ids that a message lists
LONGEST_LINE = 64 << 20  # maximum length of a line in bytes; even a whole table on one line of JSON is shorter


@dataclass(frozen=True, slots=True)
class Entry:
    """An utterance of a transcript file. The constructor applies `clean` to all strings except the audio path.

    - text: the reference in a reference file, the hypothesis in other files
    - reference: the reference in a hypothesis file; None if the file contains none
    - speaker, audio, unit: empty if unknown
    - unit: the independently sampled unit if it is not the speaker, as in UtteranceRow
    - offset, duration: position in the recording in seconds; an infinite duration extends to the recording's end
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
    """The contents of a transcript file.

    - source: path of the file
    - format: format in which the file was read
    - entries: utterances by id, in the order of the file
    - notes: remarks on the file, to print for the user
    - columns: names of the columns that were read, if the file is a table
    """

    source: str
    format: str
    entries: dict[str, Entry]
    notes: list[str] = field(default_factory=list)
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reading:
    """How to read transcript files.

    - references: whether the files contain references
    - set: name of the set to read if a table contains several sets
    - columns: column names by content, such as id or hypothesis, if a table has unusual column names
    """

    references: bool = False
    set: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)


def lines_of(path: Path) -> list[tuple[int, str]]:
    """Return a file's nonempty lines with their line numbers, counted from 1.

    Raises UsageError if the file is empty or is not UTF-8 text.
    """
    lines = [(number, text) for number, text in _decode_lines(path) if text.strip()]
    if not lines:
        raise UsageError(f"{path}: it is empty")
    return lines


def _decode_lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        if path.is_dir():
            raise UsageError(f"{path}: it is a folder; expected a file, or a quoted pattern that matches files")
        if not is_regular(path):
            raise UsageError(f"{path}: it is not a regular file")
        with path.open("rb") as file:
            number = 0
            while line := file.readline(LONGEST_LINE + 1):
                number += 1
                if len(line) > LONGEST_LINE:
                    raise UsageError(
                        f"{path}:{number}: the line is longer than {LONGEST_LINE >> 20} MB: not a transcript"
                    )
                text = decode(line, path, number).rstrip("\r\n")  # Windows files end lines with \r\n
                if "\r" in text:
                    raise UsageError(
                        f"{path}:{number}: a carriage return in the middle; expected one utterance per line"
                    )
                yield number, text
    except FileNotFoundError as error:
        raise UsageError(f"{path}: there is no such file") from error
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def unique(path: Path, entries: Sequence[tuple[int, Entry]], hint: str = "") -> dict[str, Entry]:
    """Return the entries by id. Raises UsageError if an id occurs twice, with `hint` at the end of the message."""
    by_id: dict[str, Entry] = {}
    places: dict[str, int] = {}
    for number, entry in entries:
        if entry.id in by_id:
            where = f"{path}:{number}" if number else str(path)
            first = f"is already in line {places[entry.id]}" if number else "occurs twice"
            raise UsageError(f"{where}: the id {entry.id} {first}{hint}")
        by_id[entry.id], places[entry.id] = entry, number
    return by_id


def some_of(ids: Sequence[str]) -> str:
    """Format a list of ids for a message: the number of ids, and the first few of them."""
    more = f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else ""
    return f"{len(ids)} id{'s' * (len(ids) > 1)} ({', '.join(ids[:SHOWN])}{more})"

"""An utterance in a file of texts, and the reading of a file into lines."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from asr_verdicts.errors import UsageError
from asr_verdicts.files import is_regular
from asr_verdicts.text import clean, decode

LONGEST_LINE = 64 << 20  # bytes; tables in one line of JSON are shorter, and a line of a gigabyte is not a transcript


@dataclass(frozen=True, slots=True)
class Entry:
    """An utterance in a file. Every text and name passes through `clean` here.

    - text: the reference in a file of references, else the hypothesis
    - reference: None if a file of hypotheses lacks it; speaker, audio, unit: empty if unknown
    - unit: what was drawn independently, if that is not the speaker, as in UtteranceRow
    - offset, duration: seconds in the recording; an infinite duration means to its end
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
    """The content of a file, by id in the order of the file.

    format: as it was read; notes: for the user; columns: of a table, the names of the columns that were read.
    """

    source: str
    format: str
    entries: dict[str, Entry]
    notes: list[str] = field(default_factory=list)
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reading:
    """How to read files.

    - references: whether a table's text is the reference; set: the set to read from a table with several
    - columns: the names of a table's columns by content, if they are not the usual ones
    """

    references: bool = False
    set: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)


def lines_of(path: Path) -> list[tuple[int, str]]:
    """The lines of a file that are not empty, with their numbers from 1.

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
                text = decode(line, path, number).rstrip("\r\n")  # Windows ends lines with both
                if "\r" in text:
                    raise UsageError(f"{path}:{number}: a carriage return in the middle; expected one utterance a line")
                yield number, text
    except FileNotFoundError as error:
        raise UsageError(f"{path}: there is no such file") from error
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def unique(path: Path, entries: Sequence[tuple[int, Entry]], hint: str = "") -> dict[str, Entry]:
    """The entries by id. hint: the end of the error for an id that occurs twice."""
    by_id: dict[str, Entry] = {}
    places: dict[str, int] = {}
    for number, entry in entries:
        if entry.id in by_id:
            where = f"{path}:{number}" if number else str(path)
            first = f"is in line {places[entry.id]} already" if number else "occurs twice"
            raise UsageError(f"{where}: the id {entry.id} {first}{hint}")
        by_id[entry.id], places[entry.id] = entry, number
    return by_id

"""Read tables of utterances: JSON Lines, JSON lists, and CSV or TSV with named columns."""

import csv
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from asr_verdicts.errors import UsageError
from asr_verdicts.text import clean
from asr_verdicts.texts.entries import LONGEST_LINE, Entry, Reading, Texts, unique
from asr_verdicts.texts.plain import Lines

ID, TEXT, REFERENCE, SPEAKER, AUDIO, SET, UNIT = "id", "hypothesis", "reference", "speaker", "audio", "set", "unit"
NAMES: dict[str, tuple[str, ...]] = {
    ID: ("id", "utt_id", "uttid", "utterance_id", "utt", "utterance", "key"),
    TEXT: ("pred_text", "hypothesis", "prediction", "predicted", "pred", "hyp", "predictions", "hypotheses"),
    REFERENCE: ("reference", "ref", "references", "target", "ground_truth", "gold", "label"),
    SPEAKER: ("speaker", "speaker_id", "spk", "spk_id", "client_id"),
    AUDIO: ("audio_filepath", "audio", "wav", "path", "file"),
    SET: ("set",),
    UNIT: ("unit",),
}  # usual column names by content, compared without regard to case
TEXTS = (TEXT, REFERENCE, SPEAKER, UNIT)
# names of columns that contain the reference in a reference file or next to a hypothesis, otherwise the hypothesis
EITHER = ("text", "transcript", "transcription", "sentence", "segments")
WHOLLY_QUOTED = re.compile(r'"([^"]|"")*"')
AUDIO_ENDING = re.compile(r"\.(wav|flac|mp3|ogg|opus|m4a)$")


def read_json(path: Path, lines: Lines, reading: Reading) -> Texts:
    """Read JSON Lines (NeMo's manifests), a JSON list of objects, or a single recording's JSON object (Whisper)."""
    first = lines[0][1].strip()
    if first.startswith("[") or first == "{":
        content = _parse_json(path, lines[0][0], "\n".join(line for _, line in lines))
        rows = list(enumerate(content if isinstance(content, list) else [content], start=1))
        named = "entry"
    else:
        rows = [(number, _parse_json(path, number, line)) for number, line in lines]
        named = "line"
    for number, row in rows:
        if not isinstance(row, dict):
            raise UsageError(f'{path}: {named} {number} is not an object such as {{"id": …, "text": …}}')
    if path.suffix == ".json" and len(rows) == 1 and not {*NAMES[ID], *NAMES[AUDIO]} & {*map(str.lower, rows[0][1])}:
        rows = [(1, {ID: recording_id(path), **rows[0][1]})]
    return _read_table(path, "json", [(number, row) for number, row in rows if isinstance(row, dict)], reading)


def recording_id(path: Path) -> str:
    """Return a recording's id from the name of its JSON file: `a` for a.json and for whisper.cpp's a.wav.json."""
    return clean(AUDIO_ENDING.sub("", path.stem))


def _parse_json(path: Path, number: int, text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}:{number}: not JSON: {error}") from error


def read_csv(path: Path, lines: Lines, reading: Reading) -> Texts:
    """Read a CSV file with a header, such as a run's utterances.csv, or a TSV file if the header contains tabs."""
    delimiter = "\t" if "\t" in lines[0][1] else ";" if lines[0][1].count(";") > lines[0][1].count(",") else ","
    fields = _split_tabs(lines) if delimiter == "\t" else _split_quoted(path, lines, delimiter)
    (_, head), *rows = zip((number for number, _ in lines), fields, strict=True)
    for number, row in rows:
        if len(row) != len(head):
            raise UsageError(f"{path}:{number}: {len(row)} fields, expected {len(head)} as in the header")
    if not rows:
        raise UsageError(f"{path}: it has a header but no rows")
    return _read_table(path, "csv", [(number, dict(zip(head, row, strict=True))) for number, row in rows], reading)


def _split_tabs(lines: Lines) -> list[list[str]]:
    """Split lines at tabs. Quotes are removed only if every field with quotes is quoted as a whole."""
    rows = [line.split("\t") for _, line in lines]
    if all(WHOLLY_QUOTED.fullmatch(field) for row in rows for field in row if '"' in field):
        rows = [[field[1:-1].replace('""', '"') if '"' in field else field for field in row] for row in rows]
    return rows


def _split_quoted(path: Path, lines: Lines, delimiter: str) -> list[list[str]]:
    """Split CSV lines into fields. Raises UsageError if a quote is not closed in its line and would join rows."""
    csv.field_size_limit(LONGEST_LINE)
    rows = []
    for number, line in lines:
        table = csv.reader([line, ""], delimiter=delimiter)
        rows.append(next(table))
        if table.line_num > 1:
            raise UsageError(f"{path}:{number}: a quote opens here that is not closed in this line")
    return rows


def is_head(line: str) -> bool:
    """Return whether a line is a header, which contains at least two usual column names."""
    words = {word.strip().strip('"').lower() for word in line.replace("\t", ",").replace(";", ",").split(",")}
    usual = {*EITHER, *(name for names in NAMES.values() for name in names)}
    return len(words) > 1 and len(words & usual) > 1


def _read_table(path: Path, format_: str, rows: Sequence[tuple[int, Mapping[str, object]]], reading: Reading) -> Texts:
    columns = _find_columns(path, rows[0][1], reading)
    rows = _select_set(path, rows, columns.get(SET), reading.set)
    notes: list[str] = []
    if ID not in columns and AUDIO not in columns:
        notes.append(f"{path}: it has no ids, so utterances are numbered by row")
    wanted = REFERENCE if reading.references else TEXT
    entries = []
    for (number, row), id_ in zip(rows, _find_ids(path, rows, columns), strict=True):
        texts = {key: _read_text(path, number, columns[key], row.get(columns[key])) for key in columns if key in TEXTS}
        if texts[wanted] is None:
            raise UsageError(f"{path}:{number}: {columns[wanted]}: expected text, found null")
        audio = row.get(columns.get(AUDIO, ""))
        entry = Entry(
            id_,
            texts[wanted] or "",
            texts.get(REFERENCE),
            texts.get(SPEAKER) or "",
            str(path.parent / audio) if isinstance(audio, str) and audio else "",
            _read_seconds(path, number, row, "offset", 0.0),
            _read_seconds(path, number, row, "duration", math.inf),
            texts.get(UNIT) or "",
        )
        entries.append((number, entry))
    return Texts(str(path), format_, unique(path, entries), notes, tuple(columns.values()))


def _select_set(
    path: Path, rows: Sequence[tuple[int, Mapping[str, object]]], column: str | None, wanted: str | None
) -> Sequence[tuple[int, Mapping[str, object]]]:
    """Return the rows of one set if the table has a column for the set, else all rows."""
    if column is None:
        return rows
    sets = list(dict.fromkeys(str(row.get(column)) for _, row in rows))
    if wanted is None and len(sets) > 1:
        raise UsageError(f"{path}: it contains the sets {', '.join(sets)}; expected one by name: {sets[0]}:{path}")
    if wanted is not None and wanted not in sets:
        raise UsageError(f"{path}: it has no set {wanted}; expected {' or '.join(sets)}")
    return [(number, row) for number, row in rows if str(row.get(column)) == (wanted or sets[0])]


def _find_columns(path: Path, row: Mapping[str, object], reading: Reading) -> dict[str, str]:
    """Return the table's column names by content: those in --columns if the table has them, else usual ones.

    Raises UsageError if a reference file has no reference column, or any other file no hypothesis column.
    """
    columns: dict[str, str] = {}
    spelled = {str(name).lower(): str(name) for name in reversed([*row])}
    for what, usual in NAMES.items():
        if (name := reading.columns.get(what)) in row:
            columns[what] = str(name)
        elif names := [spelled[name] for name in usual if name in spelled]:
            columns[what] = names[0]
    either = [spelled[name] for name in EITHER if name in spelled and spelled[name] not in columns.values()]
    wanted = REFERENCE if reading.references or TEXT in columns else TEXT
    if wanted not in columns and either:
        columns[wanted] = either[0]
    needed = REFERENCE if reading.references else TEXT
    if needed not in columns:
        present = ", ".join(map(str, row)) or "none"
        expected = ", ".join([*NAMES[needed], *EITHER])
        raise UsageError(
            f"{path}: no {needed} column (columns: {present}); expected one of {expected}, or --columns {needed}=NAME"
        )
    return columns


def _find_ids(path: Path, rows: Sequence[tuple[int, Mapping[str, object]]], columns: Mapping[str, str]) -> list[str]:
    """Return the ids from the id column, else from the names of audio files, else from row numbers.

    If a segment does not start at the beginning of its audio file, its id includes its start in milliseconds.
    """
    if ID in columns:
        ids = [str(value).strip() if (value := row.get(columns[ID])) is not None else "" for _, row in rows]
        if "" in ids:
            raise UsageError(f"{path}:{rows[ids.index('')][0]}: expected an id, found none")
        return ids
    if AUDIO not in columns:
        return [str(place) for place in range(1, len(rows) + 1)]
    paths = [PurePosixPath(str(row.get(columns[AUDIO]) or "")) for _, row in rows]
    starts = [_read_seconds(path, number, row, "offset", 0.0) for number, row in rows]
    names = [audio.stem for audio in paths]
    if len(set(names)) < len(set(paths)):
        names = [str(audio) for audio in paths]
    return [f"{name}-{1000 * start:07.0f}" if start else name for name, start in zip(names, starts, strict=True)]


def _read_text(path: Path, number: int, column: str, value: object) -> str | None:
    if isinstance(value, list) and all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in value):
        value = " ".join(part["text"].strip() for part in value)  # Whisper's segments
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise UsageError(f"{path}:{number}: {column}: expected text, found {str(value)[:60]!r}")
    return str(value)


def _read_seconds(path: Path, number: int, row: Mapping[str, object], column: str, otherwise: float) -> float:
    value = row.get(column)
    if value in (None, ""):
        return otherwise
    try:
        seconds = float(str(value))
    except ValueError:
        seconds = math.nan
    if not seconds >= 0:
        raise UsageError(f"{path}:{number}: {column}: expected seconds, found {str(value)[:60]!r}")
    return seconds

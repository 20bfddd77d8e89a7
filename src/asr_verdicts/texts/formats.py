"""Read a transcript file in the format that the user gives, or else in the format that its contents suggest."""

from collections.abc import Callable, Mapping
from pathlib import Path

from asr_verdicts.errors import UsageError, choices
from asr_verdicts.texts.entries import Entry, Reading, Texts, lines_of
from asr_verdicts.texts.plain import (
    RECOGS,
    Lines,
    read_kaldi,
    read_lines,
    read_recogs,
    read_speechbrain,
    read_trn,
    split_trn,
)
from asr_verdicts.texts.tables import is_head, read_csv, read_json
from asr_verdicts.texts.timed import CTM, STM, in_segments, read_ctm, read_stm

FORMATS: dict[str, Callable[[Path, Lines, Reading], Texts]] = {
    "trn": read_trn, "kaldi": read_kaldi, "json": read_json, "csv": read_csv, "icefall": read_recogs,
    "speechbrain": read_speechbrain, "ctm": read_ctm, "stm": read_stm, "lines": read_lines,
}  # fmt: skip
LOOKED_AT = 200  # number of lines that are examined to recognise a format
MOSTLY = 0.5  # minimum share of lines that must match a format; lines that do not match are then reported as errors


def read_texts(path: Path, format_: str | None, reading: Reading, segments: Mapping[str, Entry] | None = None) -> Texts:
    """Read a transcript file. Raises UsageError with the file, the line and what was expected.

    - format_: key of FORMATS, or None to recognise the format
    - segments: the references' segments, if the reference file is an STM
    """
    if format_ is not None and format_ not in FORMATS:
        raise choices("--format", format_, list(FORMATS))
    lines = lines_of(path)
    name = format_ or recognise(path, lines)
    if name == "ctm" and reading.references:
        raise UsageError(f"{path}: a CTM has no segments to score; expected an STM or transcripts as references")
    return in_segments(path, lines, segments) if name == "ctm" and segments else FORMATS[name](path, lines, reading)


def recognise(path: Path, lines: Lines, or_else: str | None = None) -> str:
    """Return the format of most lines. If it is ambiguous, return kaldi if `or_else` is set, else raise UsageError."""
    first = lines[0][1].lstrip()
    if first[0] in "{[" and (first[0] == "{" or first[1:2] in ("{", "")):
        return "json"
    if first.startswith("%WER") or any(line.strip() == "ALIGNMENTS" for _, line in lines[:LOOKED_AT]):
        return "speechbrain"
    seen = [line for _, line in lines[:LOOKED_AT] if not line.startswith(";;")]
    if not seen:
        raise UsageError(f"{path}: it contains only comments")
    fits: dict[str, Callable[[str], object]]
    fits = {"icefall": RECOGS.match, "trn": split_trn, "stm": STM.match, "ctm": CTM.match}
    share = {name: sum(fit(line) is not None for line in seen) / len(seen) for name, fit in fits.items()}
    if path.suffix.lower() in (".csv", ".tsv") or is_head(lines[0][1]):
        return "csv"
    name = max(share, key=lambda one: share[one])
    if share[name] < MOSTLY:
        return "kaldi"
    ids = [line.split(maxsplit=1)[0] for line in seen]
    if name in ("ctm", "stm") and path.suffix != f".{name}" and len(set(ids)) == len(ids) > 1:
        if or_else is not None:
            return "kaldi"
        raise UsageError(f"{path}: it may be {name} or kaldi (an id and numbers as words); set --format")
    return name

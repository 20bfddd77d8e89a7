"""Read NIST's CTM files, which contain words with times, and STM files, which contain segments with times."""

import math
import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from asr_verdicts.errors import UsageError
from asr_verdicts.text import clean
from asr_verdicts.texts.entries import Entry, Reading, Texts, unique
from asr_verdicts.texts.plain import Lines

CTM = re.compile(r"^\S+\s+\S+\s+[\d.]+\s+[\d.]+\s+\S+(\s+\S+){0,3}\s*$")
STM = re.compile(r"^\S+\s+\S+\s+\S+\s+[\d.]+\s+[\d.]+(\s|$)")
LABEL = re.compile(r"^<[^>]*>$")
UNSCORED = "IGNORE_TIME_SEGMENT_IN_SCORING"
COMMENT = ";;"
# names in the speaker column that mark pauses, as in TED-LIUM
PAUSES = ("inter_segment_gap", "excluded_region")


def read_stm(path: Path, lines: Lines, reading: Reading) -> Texts:
    """Read an STM file, with lines `recording channel speaker start end [<label>] words` and times in seconds.

    A segment's id is recording-channel-start.
    """
    entries, unscored = [], 0
    for number, line in lines:
        if line.startswith(COMMENT):
            continue
        fields = line.split()
        if len(fields) < 5:
            raise UsageError(
                f"{path}:{number}: expected recording channel speaker start end words, found {line[:60]!r}"
            )
        recording, channel, speaker, *times = fields[:5]
        start, end = (_parse_time(path, number, text) for text in times)
        if end <= start:
            raise UsageError(f"{path}:{number}: the segment's end, {end:g} s, is not after its start, {start:g} s")
        words = fields[6:] if len(fields) > 5 and LABEL.match(fields[5]) else fields[5:]
        if speaker.lower() in PAUSES or UNSCORED in (word.upper() for word in words):
            unscored += 1
            continue
        id_ = f"{recording}-{channel}-{start:.2f}"
        text = " ".join(words)
        entries.append((number, Entry(id_, text, None, speaker, "", start, end - start)))
    marks = ", ".join((UNSCORED, *PAUSES))
    notes = [f"{path}: {unscored} segments are marked as not scored ({marks}): left out"] if unscored else []
    return Texts(str(path), "stm", unique(path, entries), notes)


def read_ctm(path: Path, lines: Lines, reading: Reading) -> Texts:
    """Read a CTM file, with lines `recording channel start duration word [confidence …]` and times in seconds.

    Each entry contains all words of one recording and channel. Its id omits the channel if every recording has only one
    channel. To get an entry for each segment of an STM, use `in_segments`.
    """
    words: dict[tuple[str, str], list[str]] = {}
    last: dict[tuple[str, str], float] = {}
    for number, line in lines:
        if line.startswith(COMMENT):
            continue
        fields = line.split()
        if len(fields) < 5:
            raise UsageError(f"{path}:{number}: expected recording channel start duration word, found {line[:60]!r}")
        if fields[4].upper().startswith("<ALT"):
            raise UsageError(f"{path}:{number}: alternatives ({fields[4]}) are unsupported; expected one word per time")
        start, _ = (_parse_time(path, number, text) for text in fields[2:4])
        key = (fields[0], fields[1])
        if start < last.get(key, 0.0):
            raise UsageError(f"{path}:{number}: {fields[0]} goes back in time, from {last[key]:g} to {start:g} s")
        last[key] = start
        words.setdefault(key, []).append(fields[4])
    single = len({recording for recording, _ in words}) == len(words)
    entries = [
        (0, Entry(recording if single else f"{recording}-{channel}", " ".join(spoken)))
        for (recording, channel), spoken in words.items()
    ]
    return Texts(str(path), "ctm", unique(path, entries))


def in_segments(path: Path, lines: Lines, segments: Mapping[str, Entry]) -> Texts:
    """Assign the words of a CTM file to the segments of an STM file.

    A word belongs to the segment of the same recording and channel that contains the word's middle. A segment without
    words gets an empty hypothesis.
    """
    read_ctm(path, lines, Reading())  # called only to check the lines
    by_recording: dict[str, list[Entry]] = {}
    for entry in segments.values():
        by_recording.setdefault(entry.id.rpartition("-")[0], []).append(entry)
    starts = {}
    for name, entries in by_recording.items():
        entries.sort(key=lambda entry: entry.offset)
        starts[name] = [entry.offset for entry in entries]
    words: dict[str, list[str]] = {id_: [] for id_ in segments}
    outside = 0
    for _, line in lines:
        if line.startswith(COMMENT):
            continue
        recording, channel, start, duration, word = line.split()[:5]
        middle, name = float(start) + float(duration) / 2, clean(f"{recording}-{channel}")
        place = bisect_right(starts.get(name, []), middle) - 1
        segment = by_recording[name][place] if place >= 0 else None
        if segment is None or middle > segment.offset + segment.duration:
            outside += 1
            continue
        words[segment.id].append(word)
    notes = [f"{path}: {outside} words are outside the references' segments: left out"] if outside else []
    entries_ = {id_: replace(entry, text=" ".join(words[id_])) for id_, entry in segments.items()}
    return Texts(str(path), "ctm", entries_, notes)


def _parse_time(path: Path, number: int, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise UsageError(f"{path}:{number}: expected seconds, found {text[:60]!r}")
    return seconds

"""Faults of the audio files of utterances: `inspect` reads headers and bytes, `decode_all` every sample."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from asr_ablations.data import audio
from asr_ablations.data.audio import AudioError, DecodedRow, FileRow
from asr_ablations.data.utterances import MISSING, NUMBERS, Utterance, Utterances
from asr_ablations.tools.content_keys import FileState
from asr_ablations.tools.machine import cores
from asr_verdicts.terminal import bar

A = TypeVar("A")
B = TypeVar("B")
CHUNK = 64
"""Files per task: a task per file would cost more than what is looked up."""


def in_threads(work: Callable[[A], B], items: Sequence[A], title: str) -> Iterator[list[B]]:
    """Apply `work` to all items in order, in chunks, with a progress bar. Threads suffice: reading, hashing and
    decoding release the interpreter's lock.
    """
    chunks = [items[i : i + CHUNK] for i in range(0, len(items), CHUNK)]
    pool = ThreadPoolExecutor(cores())
    try:
        with bar(title, len(items)) as advance:
            for done in pool.map(lambda chunk: [work(item) for item in chunk], chunks):
                yield done
                advance(len(done))
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C does not wait for the rest


BLOCK = 1 << 20
SILENT = "silent audio"
ROUNDING = 0.05
"""Seconds that a manifest's times may exceed the end of a file: they are often rounded."""


@dataclass(frozen=True)
class AudioFile:
    """Samples per channel, Hz and a hash of all bytes, or the fault. indexed: nothing had to be read for this."""

    path: Path
    state: FileState | None
    samples: int
    rate: int
    content: str
    fault: str = ""
    indexed: bool = False


def inspect(utterances: Sequence[Utterance], title: str) -> Utterances:
    """Return the utterances with durations, content hashes and the faults that files show without being decoded."""
    paths = list({str(u.audio): u.audio for u in utterances if not u.fault}.values())
    rows = {row.path: row for row in audio.load(FileRow, paths)}
    files: dict[str, AudioFile] = {}  # by text: a Path is costly to compare
    for chunk in in_threads(lambda path: _inspect_file(path, rows.get(str(path))), paths, title):
        files |= {str(file.path): file for file in chunk}
        audio.store([_file_row(file) for file in chunk if not (file.fault or file.indexed)])
    placed = [u if u.fault else _placed(u, files[str(u.audio)]) for u in utterances]
    states = [FileState.of(u.audio) if u.fault else files[str(u.audio)].state for u in utterances]
    return Utterances.of(placed, [state or MISSING for state in states])


def _inspect_file(path: Path, row: FileRow | None) -> AudioFile:
    state = FileState.of(path)
    if row is not None and state == row.state:
        return AudioFile(path, state, row.samples, row.rate, row.content, indexed=True)
    try:
        samples, rate = audio.header(path)
        return AudioFile(path, state, samples, rate, _content_hash(path))
    except AudioError as error:
        return AudioFile(path, state, 0, 0, "", error.fault)


def _content_hash(path: Path) -> str:
    digest = hashlib.blake2b(digest_size=16)
    try:
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                digest.update(block)
    except OSError as error:
        raise AudioError(path, "unreadable audio", error.strerror) from error
    return digest.hexdigest()


def _file_row(file: AudioFile) -> FileRow:
    assert file.state is not None
    return FileRow(str(file.path), *file.state, file.samples, file.rate, file.content)


def _placed(utterance: Utterance, file: AudioFile) -> Utterance:
    """Return the utterance with its duration within the file, or with a fault if the file does not contain it."""
    if file.fault:
        return replace(utterance, duration=0.0, fault=file.fault)
    length, begin = file.samples / file.rate, utterance.offset
    end = min(begin + utterance.duration, length)
    if begin + utterance.duration > length + ROUNDING and utterance.duration < float("inf"):
        excess = f"{begin:g} to {begin + utterance.duration:g} s of a file of {length:g} s"
        return replace(utterance, duration=0.0, fault=f"beyond the end: {utterance.audio}: {excess}")
    if round((end - begin) * file.rate) < 1:
        return replace(utterance, duration=0.0, fault=f"zero-length audio: {utterance.audio}: from {begin:g} s on")
    return replace(utterance, duration=end - begin, content=file.content)


Part = tuple[str, float, float, int]
"""Path, begin and length in seconds, and channel, of a decoded part of a file."""


def known_faults(utterances: Utterances) -> Utterances:
    """Return the utterances with the faults that `decode_all` found in an earlier run, where files are unchanged."""
    rows = {row[:4]: row for row in audio.load_faulty()}
    paths = {path for path, *_ in rows}
    suspects = [index for index, path in enumerate(utterances.strings("audio")) if path in paths] if paths else []
    faults = {index: _known_fault(utterances[index], rows) for index in suspects if not utterances[index].fault}
    return utterances.replaced({index: replace(utterances[index], fault=x) for index, x in faults.items() if x})


def decode_all(utterances: Utterances, title: str) -> Utterances:
    """Return the utterances with the faults that only decoding shows: those of `audio.read`, and silence. Where an
    earlier run has decoded the very same, no file is looked at but those that had a fault.
    """
    digest = _digest(utterances)
    if (faulty := audio.faults_of_decoded(digest)) is not None:
        known = known_faults(utterances)
        if int(known.has("fault").sum()) == faulty:
            return known
    rows = _decoded_rows(utterances)
    faults: dict[int, str] = {}
    checked = 0
    for chunk in in_threads(lambda u: _check(u, rows), utterances, title):
        faults |= {index: fault for index, (fault, _) in enumerate(chunk, checked) if fault}
        audio.store([row for _, row in chunk if row is not None])
        checked += len(chunk)
    audio.store_decoded(digest, len(faults))
    return utterances.replaced({index: replace(utterances[index], fault=fault) for index, fault in faults.items()})


def _digest(utterances: Utterances) -> str:
    """Return a hash of all that decides what decoding shows: places, and files by their states when they were read."""
    digest = hashlib.blake2b(digest_size=16)
    for path in utterances.strings("audio"):
        digest.update(path.encode("utf-8", "surrogatepass") + b"\0")
    for name in NUMBERS:
        digest.update(utterances.column(name).tobytes())
    digest.update(utterances.has("fault").tobytes())
    return digest.hexdigest()


def _decoded_rows(utterances: Sequence[Utterance]) -> dict[Part, DecodedRow]:
    paths = {str(u.audio): u.audio for u in utterances if not u.fault}.values()
    return {row[:4]: row for row in audio.load(DecodedRow, paths)}


def _part(utterance: Utterance) -> Part:
    return str(utterance.audio), utterance.offset, utterance.duration, utterance.channel


def _known_fault(utterance: Utterance, rows: dict[Part, DecodedRow]) -> str | None:
    """Return the stored fault, "" for none, or None if the file was never decoded in its present state."""
    row, state = rows.get(_part(utterance)), FileState.of(utterance.audio)
    return row.fault if row is not None and state == row.state else None


def _check(utterance: Utterance, rows: dict[Part, DecodedRow]) -> tuple[str, DecodedRow | None]:
    """Return the fault ("" for none), and the row to store if the audio had to be decoded."""
    state = FileState.of(utterance.audio)
    if utterance.fault or state is None:
        return utterance.fault, None
    if (fault := _known_fault(utterance, rows)) is not None:
        return fault, None
    try:
        samples = audio.read(utterance.audio, *_part(utterance)[1:])
        fault = "" if samples.any() else f"{SILENT}: {utterance.audio}: every sample is 0"
    except AudioError as error:
        fault = error.fault
    return fault, DecodedRow(*_part(utterance), *state, fault)

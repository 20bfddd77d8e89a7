"""What the audio files of utterances are like: their headers and contents, and with `listen` every sample."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from asr_ablations.data import audio
from asr_ablations.data import audio_index as memory
from asr_ablations.data.audio import AudioError
from asr_ablations.data.audio_index import State
from asr_ablations.data.utterance import Utterance
from asr_ablations.tools.threads import in_threads

BLOCK = 1 << 20
ROUNDING = 0.05
"""s that a manifest's times may reach past the end of a file: they are often rounded."""


@dataclass(frozen=True)
class File:
    """samples a channel, Hz, a hash of all bytes; or what is wrong. known: nothing of this had to be read."""

    path: Path
    state: State | None
    samples: int
    rate: int
    content: str
    fault: str = ""
    known: bool = False


def inspect(utterances: Sequence[Utterance], title: str) -> list[Utterance]:
    """The utterances with durations, contents and the faults that files show without being decoded."""
    paths = list({str(u.audio): u.audio for u in utterances if not u.fault}.values())
    known = {row[0]: row for row in memory.recall("files", paths)}
    files: dict[str, File] = {}  # by text: a Path is costly to compare
    for looked in in_threads(lambda path: _look(path, known.get(str(path))), paths, title):
        files |= {str(file.path): file for file in looked}
        memory.remember("files", [_row(file) for file in looked if not (file.fault or file.known)])
    return [u if u.fault else _placed(u, files[str(u.audio)]) for u in utterances]


def _look(path: Path, row: tuple[str, int, int, int, int, str] | None) -> File:
    state = State.of(path)
    if row is not None and state == State(row[1], row[2]):
        return File(path, state, *row[3:], known=True)
    try:
        samples, rate = audio.header(path)
        return File(path, state, samples, rate, _content(path))
    except AudioError as error:
        return File(path, state, 0, 0, "", error.fault)


def _content(path: Path) -> str:
    found = hashlib.blake2b(digest_size=16)
    try:
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                found.update(block)
    except OSError as error:
        raise AudioError(path, "unreadable audio", error.strerror) from error
    return found.hexdigest()


def _row(file: File) -> tuple[str, int, int, int, int, str]:
    assert file.state is not None
    return (str(file.path), file.state.size, file.state.changed, file.samples, file.rate, file.content)


def _placed(utterance: Utterance, file: File) -> Utterance:
    """The utterance within its file."""
    if file.fault:
        return replace(utterance, duration=0.0, fault=file.fault)
    length, begin = file.samples / file.rate, utterance.offset
    end = min(begin + utterance.duration, length)
    if begin + utterance.duration > length + ROUNDING and utterance.duration < float("inf"):
        asked = f"asks for {begin:g} to {begin + utterance.duration:g} s of {length:g} s"
        return replace(utterance, duration=0.0, fault=f"beyond the end: {utterance.audio}: {asked}")
    if round((end - begin) * file.rate) < 1:
        return replace(utterance, duration=0.0, fault=f"zero-length audio: {utterance.audio}: from {begin:g} s on")
    return replace(utterance, duration=end - begin, content=file.content)


def recall(utterances: Sequence[Utterance]) -> list[Utterance]:
    """The utterances with the faults that `listen` found in an earlier run, where the files are as they were."""
    known = _heard(utterances)
    return (
        [u if u.fault else replace(u, fault=_known_fault(u, known) or "") for u in utterances]
        if known
        else list(utterances)
    )


def listen(utterances: Sequence[Utterance], title: str) -> list[Utterance]:
    """The utterances with the faults that only decoding shows: audio that ends too early, is no number, or silent."""
    known = _heard(utterances)
    found: list[Utterance] = []
    for heard in in_threads(lambda u: (u, *_hear(u, known)), utterances, title):
        found += [u if u.fault else replace(u, fault=fault) for u, fault, _ in heard]
        memory.remember("heard", [row for _, _, row in heard if row is not None])
    return found


Key = tuple[str, float, float]
Heard = tuple[str, float, float, int, int, str]


def _heard(utterances: Sequence[Utterance]) -> dict[Key, Heard]:
    paths = {str(u.audio): u.audio for u in utterances if not u.fault}.values()
    return {(row[0], row[1], row[2]): (*row,) for row in memory.recall("heard", paths)}


def _key(utterance: Utterance) -> Key:
    return (str(utterance.audio), utterance.offset, utterance.duration)


def _known_fault(utterance: Utterance, known: dict[Key, Heard]) -> str | None:
    """What was found, "" for nothing wrong; None where nobody has listened to the file as it is."""
    row, state = known.get(_key(utterance)), State.of(utterance.audio)
    return row[5] if row is not None and state == State(row[3], row[4]) else None


def _hear(utterance: Utterance, known: dict[Key, Heard]) -> tuple[str, Heard | None]:
    """(fault, what to remember of it)"""
    state = State.of(utterance.audio)
    if utterance.fault or state is None:
        return utterance.fault, None
    if (fault := _known_fault(utterance, known)) is not None:
        return fault, None
    try:
        samples = audio.read(utterance.audio, utterance.offset, utterance.duration)
        fault = "" if samples.any() else f"silent audio: {utterance.audio}: every sample is 0"
    except AudioError as error:
        fault = error.fault
    return fault, (*_key(utterance), state.size, state.changed, fault)

"""An index that stores, in one file per split of a corpus, all utterances and facts about their audio files.

src/prepare.py or the first run that reads a split writes the index file. It remains valid while the code of the corpus
class, the transcripts and the names in the folders are unchanged, and every audio file has the same size, inode and
change time. Otherwise the split is listed again, and new or changed audio files are read. An index of 281,241
utterances takes 130 MB.
"""

import functools
import hashlib
import logging
import os
import zipfile
import zlib
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import ExitStack, suppress
from contextvars import ContextVar
from dataclasses import replace
from glob import glob
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from asr_ablations.data import audio
from asr_ablations.data.audio import AudioError, in_threads
from asr_ablations.data.tables import SUFFIXES, file_on_disk
from asr_ablations.data.utterances import PackedTexts, Utterance, Utterances
from asr_ablations.tools.content_keys import FileState, content_key, dotted_name, hash_classes, library_versions
from asr_ablations.tools.files import expanded
from asr_ablations.tools.machine import one_at_a_time
from asr_verdicts.errors import UsageError
from asr_verdicts.files import is_regular, whole_file

log = logging.getLogger(__name__)

SILENT = "silent audio"
ROUNDING = 0.05
"""Seconds by which an utterance may extend past the end of its file, because times in manifests are often rounded."""
MISSING = FileState(-1, -1, -1)
FACTS = (*FileState._fields, "samples", "rate", "decoded")
DECODED = FACTS.index("decoded")


class AudioFile(NamedTuple):
    """Samples per channel, sampling rate in Hz and hash of an audio file in its current state, or else its fault."""

    state: FileState
    samples: int = 0
    rate: int = 0
    content: str = ""
    fault: str = ""


class Listing(NamedTuple):
    """A split's utterances, facts about audio (N, 6), and "<hash> <path>" of each file or folder that was read."""

    utterances: Utterances
    facts: np.ndarray
    sources: PackedTexts


def index_folder() -> Path:
    """Return the folder of all indexes: $ASR_ABLATIONS_INDEX, or asr-ablations/index in the user's cache folder."""
    cache = expanded(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return Path(os.environ.get("ASR_ABLATIONS_INDEX") or cache / "asr-ablations" / "index")


_sources: ContextVar["dict[str, str] | None"] = ContextVar("sources", default=None)


def note(path: Path) -> None:
    """Record a hash of a text file that will be read, or of a folder that will be listed, to detect later changes."""
    if (sources := _sources.get()) is not None:
        sources[str(path)] = _hash_source(str(path))


def _hash_source(path: str) -> str:
    """Return a hash of the bytes of a text file, of the names in a folder, or of the state of a large table."""
    try:
        if path.endswith(SUFFIXES) and os.path.isfile(path):
            content = repr(FileState.read(path)).encode()
        elif os.path.isdir(path):
            with os.scandir(path) as entries:
                content = "\0".join(sorted(e.name + "/" * e.is_dir() for e in entries)).encode(errors="surrogateescape")
        else:
            content = Path(path).read_bytes() if is_regular(Path(path)) else b"no file"
    except OSError as error:
        content = f"unreadable: {error}".encode(errors="surrogateescape")
    return hashlib.blake2b(content, digest_size=16).hexdigest()


@functools.cache
def hash_reader(reader: type) -> str:
    """Return a hash of the source of a corpus class, of the source that it uses, and of library versions."""
    return content_key(64, sources=hash_classes([reader]), versions=library_versions())


class SplitIndex:
    """The index of one split of the corpus that the class `reader` reads from the folder `root`.

    options: values on which the list of utterances depends, in addition to text files and folders. None if it may
    depend on anything else: every run then lists the split again, and uses only the index's facts about audio files.
    """

    def __init__(self, reader: type, root: Path | None, split: str, options: Sequence[object] | None) -> None:
        self.split, self.keeps_listing = split, options is not None
        self.code = hash_reader(reader)
        self.audio_code = content_key(64, code=audio.hash_reader(), versions=library_versions())
        corpus = content_key(reader=dotted_name(reader), root=root and os.path.abspath(root))
        place = [split, os.getcwd(), os.path.expanduser("~"), *map(str, options or ["read always"])]
        self.path = index_folder() / corpus / f"{content_key(place=place)}.npz"

    def read(self, find: Callable[[], list[Utterance]], decode: bool) -> Utterances:
        """Return all utterances of the split, including faulty ones. `find` lists them if there is no valid index.

        decode: whether to decode all audio to find faults that headers do not reveal; the index stores these faults
        """
        listing = self._load()
        if listing is None or (decode and len(_find_rows_to_decode(listing))):
            with ExitStack() as stack:  # only one process at a time creates the index
                with suppress(OSError, UsageError):  # continue without a lock if the folder is read-only
                    self.path.parent.mkdir(parents=True, exist_ok=True)
                    waiting = f"waiting for the process that is reading {self.split}"
                    stack.enter_context(one_at_a_time(self.path.with_suffix(".lock"), waiting))
                listing = self._load() or self._make(find)
                if decode:
                    listing = self._decode(listing)
        return listing.utterances

    def _load(self) -> Listing | None:
        """Return the stored listing, or None if it is missing or out of date."""
        stored = _read_index(self.path) if self.keeps_listing else None
        if stored is None or stored[0] != self.code or not _is_unchanged(stored[2]):
            return None
        return stored[2]

    def _make(self, find: Callable[[], list[Utterance]]) -> Listing:
        """List the split, and read the header and all bytes of each audio file that is not in any index."""
        sources: dict[str, str] = {}
        token = _sources.set(sources)
        try:
            utterances = find()
        finally:
            _sources.reset(token)
        paths = {str(u.audio): u.audio for u in utterances if not u.fault}  # strings, because comparing Paths is slow
        indexed, decoded = self._load_audio(paths)
        files: dict[str, AudioFile] = {}
        for chunk in in_threads(lambda path: _inspect(path, indexed), [*paths.values()], f"reading {self.split}"):
            files.update(chunk)
        facts = np.zeros((len(utterances), len(FACTS)), np.int64)
        for row, u in enumerate(utterances):  # in place, to save memory if the corpus is large
            file = AudioFile(_read_state(u.audio)) if u.fault else files[str(u.audio)]
            placed = u if u.fault else _place(u, file)
            fault = None if placed.fault else decoded.get(_identify_part(placed, file.state))
            utterances[row] = placed if fault is None else replace(placed, fault=fault)
            facts[row] = (*file.state, file.samples, file.rate, fault is not None)
        packed = PackedTexts.pack(f"{hash_} {path}" for path, hash_ in sources.items())
        listing = Listing(Utterances.convert(utterances), facts, packed)
        if self.keeps_listing or any((path, file.state) not in indexed for path, file in files.items()):
            self._store(listing)
        return listing

    def _load_audio(
        self, paths: Container[str]
    ) -> tuple[dict[tuple[str, FileState], AudioFile], dict[tuple[object, ...], str]]:
        """Collect facts about the files at `paths`, and results of decoding parts of them, from all splits' indexes."""
        files, parts = dict[tuple[str, FileState], AudioFile](), dict[tuple[object, ...], str]()
        for name in glob("*.npz", root_dir=self.path.parent):  # Path.glob would raise if a folder is unreadable
            stored = _read_index(self.path.with_name(name))
            if stored is None or stored[1] != self.audio_code:
                continue
            utterances, facts, _ = stored[2]
            for row in [row for row, path in enumerate(utterances.strings("audio")) if path in paths]:
                *numbers, samples, rate, is_decoded = facts[row].tolist()
                u, state = utterances[row], FileState(*numbers)
                if u.content:
                    files[str(u.audio), state] = AudioFile(state, samples, rate, u.content)
                if is_decoded:
                    parts[_identify_part(u, state)] = u.fault
        return files, parts

    def _decode(self, listing: Listing) -> Listing:
        """Decode audio that has not been decoded yet, to find faults. An interruption loses only unfinished chunks."""
        utterances, facts, sources = listing
        rows = _find_rows_to_decode(listing)
        faults, waiting = dict[int, str](), iter(rows.tolist())
        try:
            for chunk in in_threads(_find_fault, utterances.take(rows), f"decoding {self.split}"):
                for fault, row in zip(chunk, waiting, strict=False):
                    faults[row], facts[row, DECODED] = fault, 1
        finally:
            listing = Listing(utterances.with_faults(faults), facts, sources)
            self._store(listing)
        return listing

    def _store(self, listing: Listing) -> None:
        arrays: dict[str, Any] = {
            "code": np.array(self.code),
            "audio_code": np.array(self.audio_code),
            "facts": listing.facts,
            **listing.utterances.arrays(),
            **listing.sources.arrays("sources"),
        }
        try:
            with whole_file(self.path) as temporary, temporary.open("wb") as file:
                np.savez(file, **arrays)
        except OSError as error:
            log.warning("the index of %s cannot be stored, so every run creates it again: %s", self.split, error)


def _read_index(path: Path) -> tuple[str, str, Listing] | None:
    """Return hashes of the corpus class and of the audio reader, and the listing; None if the file is unusable."""
    try:
        with path.open("rb") as opened, np.load(opened) as file:
            arrays = {name: file[name] for name in file.files}
        sources = PackedTexts.from_arrays(arrays, "sources")
        listing = Listing(Utterances.from_arrays(arrays), arrays["facts"], sources)
        return str(arrays["code"]), str(arrays["audio_code"]), listing
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):  # missing or damaged
        return None


def _is_unchanged(listing: Listing) -> bool:
    """Return whether all text files, folders and audio files have remained unchanged since the listing was made."""
    recorded = (listing.sources[row].split(" ", 1) for row in range(len(listing.sources)))
    if any(_hash_source(path) != hash_ for hash_, path in recorded):
        return False
    facts = map(tuple, listing.facts[:, : len(MISSING)].tolist())
    states = dict(zip(listing.utterances.strings("audio"), facts, strict=True))  # a dict, to check each file only once
    return all(_read_state(path) == state for path, state in states.items())


def _read_state(path: Path | str) -> FileState:
    """Return the state of an audio file, or of the table that contains it."""
    return FileState.read(file_on_disk(path)) or MISSING


def _inspect(path: Path, indexed: Mapping[tuple[str, FileState], AudioFile]) -> tuple[str, AudioFile]:
    """Return the path and facts about its file: from an index if the file is unchanged, or else read from the file."""
    state = _read_state(path)  # before reading, so that a change during reading is detected later
    if file := indexed.get((str(path), state)):
        return str(path), file
    try:
        samples, rate = audio.header(path)
        return str(path), AudioFile(state, samples, rate, audio.hash_content(path))
    except AudioError as error:
        return str(path), AudioFile(state, fault=error.fault)


def _place(utterance: Utterance, file: AudioFile) -> Utterance:
    """Return the utterance with its exact duration, or with a fault if it is empty or extends past the file's end."""
    if file.fault:
        return replace(utterance, duration=0.0, fault=file.fault)
    length, begin = file.samples / file.rate, utterance.offset
    end = min(begin + utterance.duration, length)
    if begin + utterance.duration > length + ROUNDING and utterance.duration < float("inf"):
        excess = f"{begin:g} to {begin + utterance.duration:g} s, but the file ends at {length:g} s"
        return replace(utterance, duration=0.0, fault=f"beyond the end: {utterance.audio}: {excess}")
    if round((end - begin) * file.rate) < 1:
        return replace(utterance, duration=0.0, fault=f"zero-length audio: {utterance.audio}: starting at {begin:g} s")
    return replace(utterance, duration=end - begin, content=file.content)


def _identify_part(utterance: Utterance, state: FileState) -> tuple[object, ...]:
    return str(utterance.audio), state, utterance.offset, utterance.duration, utterance.channel


def _find_rows_to_decode(listing: Listing) -> np.ndarray:
    return np.flatnonzero((listing.facts[:, DECODED] == 0) & ~listing.utterances.has("fault"))


def _find_fault(utterance: Utterance) -> str:
    """Decode an utterance, and return the fault that this reveals, or "" if there is none."""
    try:
        samples = audio.read(utterance.audio, utterance.offset, utterance.duration, utterance.channel)
        return "" if samples.any() else f"{SILENT}: {utterance.audio}: every sample is 0"
    except AudioError as error:
        return error.fault

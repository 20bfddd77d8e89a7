"""The recordings to transcribe: files, folders, lists; and reading of whole recordings."""

import io
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile

from asr_ablations import SAMPLE_RATE
from asr_ablations.data.audio import header, read
from asr_verdicts.errors import UsageError

ENDINGS = {f".{name.lower()}" for name in soundfile.available_formats()} | {".aif", ".oga", ".opus"}
BLOCK = 30
"""Seconds that are read and resampled at once, a whole number; at rates above PLAIN_RATE fewer. Resampling takes about
forty times the memory of its result: 1.2 GB for ten minutes.
"""
PLAIN_RATE = 48_000


class Source(NamedTuple):
    """A file, and its path below the requested folder (its name, if the file itself was requested)."""

    path: Path
    name: Path


def find_sources(requested: Sequence[str]) -> list[Source]:
    """Return the files of the requested paths, each once. Folders are searched at any depth for audio by its endings;
    "-" is a list of paths on standard input, one per line.

    Raises UsageError for a folder or a list without any.
    """
    sources: dict[Path, Source] = {}
    for text in requested:
        paths = _listed() if text == "-" else [text]
        for path in (Path(p) for p in paths if p.strip()):
            for source in _files(path):
                sources.setdefault(source.path, source)
    if not sources:
        raise UsageError(f"audio={','.join(requested)}: no paths on standard input, expected one per line")
    return list(sources.values())


def _listed() -> list[str]:
    """The lines of standard input."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # names are bytes
    return [line.rstrip("\r\n") for line in sys.stdin]


def _files(path: Path) -> Iterator[Source]:
    if not os.path.isdir(path):  # Path.is_dir raises for a name that is too long
        yield Source(path, Path(path.name))
        return
    files = sorted(p for p in path.rglob("*") if p.suffix.lower() in ENDINGS and p.is_file())
    if not files:
        raise UsageError(f"audio={path}: no audio in this folder ({', '.join(sorted(ENDINGS))})")
    for file in files:
        yield Source(file, file.relative_to(path))


def read_whole(path: Path) -> np.ndarray:
    """Return a recording as int16 samples (S,) at 16 kHz; stereo is averaged.

    It is read in blocks of half a minute or less. With other sample rates the numbers are those of a single resampling:
    a block begins at a whole second, and one more second is resampled on both sides.
    Raises AudioError, which names the file, if it is missing, damaged or empty.
    """
    count, rate = header(path)
    total, parts = count / rate, []
    block = max(1, BLOCK * PLAIN_RATE // max(rate, PLAIN_RATE))
    for first in range(0, max(1, int(np.ceil(total))), block):
        begin, end = max(0, first - 1), min(total, first + block + 1)
        samples = read(path, begin, end - begin)[(first - begin) * SAMPLE_RATE :]
        parts.append(samples[: block * SAMPLE_RATE] if end > first + block else samples)
    return np.concatenate(parts)

"""What is to be transcribed: files, folders, lists; and whole recordings in memory."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile

from asr_ablations import SAMPLE_RATE
from asr_ablations.data.audio import duration, read
from asr_ablations.tools.errors import UsageError

ENDINGS = {f".{name.lower()}" for name in soundfile.available_formats()} | {".aif", ".oga", ".opus"}
BLOCK = 600
"""Whole seconds that are read and resampled at once."""


class Source(NamedTuple):
    """A file, and its path below the folder that was asked for (its name, where it was named itself)."""

    path: Path
    name: Path


def listed(asked: Sequence[str]) -> list[Source]:
    """Files of the paths that were asked for, each once: folders are searched at any depth for endings of audio; "-" is
    a list of paths on standard input, one a line. Raises UsageError for a folder or a list without any.
    """
    found: dict[Path, Source] = {}
    for text in asked:
        paths = [line.rstrip("\r\n") for line in sys.stdin] if text == "-" else [text]
        for path in (Path(p) for p in paths if p.strip()):
            for source in _files(path):
                found.setdefault(source.path, source)
    if not found:
        raise UsageError(f"audio={','.join(asked)}: no paths on standard input, expected one a line")
    return list(found.values())


def _files(path: Path) -> Iterator[Source]:
    if not path.is_dir():
        yield Source(path, Path(path.name))
        return
    there = sorted(p for p in path.rglob("*") if p.suffix.lower() in ENDINGS and p.is_file())
    if not there:
        raise UsageError(f"audio={path}: no audio in this folder ({', '.join(sorted(ENDINGS))})")
    for file in there:
        yield Source(file, file.relative_to(path))


def whole(path: Path) -> np.ndarray:
    """int16 samples (S,) of a recording at 16 kHz; stereo is averaged. Ten minutes at a time, which with other rates
    gives the numbers of all at once: a block begins at a whole second, and a second more is resampled on both sides.
    Raises AudioError, which names the file, for one that is missing, damaged or empty.
    """
    total, parts = duration(path), []
    for first in range(0, max(1, int(np.ceil(total))), BLOCK):
        begin, end = max(0, first - 1), min(total, first + BLOCK + 1)
        samples = read(path, begin, end - begin)[(first - begin) * SAMPLE_RATE :]
        parts.append(samples[: BLOCK * SAMPLE_RATE] if end > first + BLOCK else samples)
    return np.concatenate(parts)

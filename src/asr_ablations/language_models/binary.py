"""The words of KenLM's binaries, which KenLM itself does not give (format 5: lm/binary_format.cc, lm/vocab.hh)."""

import mmap
from pathlib import Path

from asr_verdicts.errors import UsageError

FORMAT = b"mmap lm http://kheafield.com/code format version 5\n"
HAS_WORDS = 100
"""Byte of the header that says whether the words stand at the end of the file."""
FIRST = b"<unk>\0"
"""The first of the words; each ends with a zero byte."""


def read_words(file: Path) -> list[str]:
    """Return the words of a binary, <unk> first. Raises UsageError for a file of another format, or without words."""
    if file.stat().st_size <= HAS_WORDS:
        raise UsageError(f"{file}: a KenLM binary that is damaged: its header is cut")
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if content[: len(FORMAT)] != FORMAT:
            raise UsageError(f"{file}: no KenLM binary of format 5")
        begin = content.rfind(FIRST)
        if not content[HAS_WORDS]:
            raise UsageError(f"{file}: contains no words; build_binary writes them unless an option says otherwise")
        if begin < 0 or content[-1]:
            raise UsageError(f"{file}: a KenLM binary that is damaged: its list of words is cut")
        return [word.decode("utf-8", errors="replace") for word in content[begin:-1].split(b"\0")]

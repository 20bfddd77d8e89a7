"""ARPA files: n-grams with log10 probabilities and back-off weights, as SRILM, KenLM and others write them."""

import gzip
import io
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.files import whole_file

Entry = tuple[tuple[str, ...], float, float | None]
"""Words, log10 of the probability, log10 of the back-off weight; None for the highest order."""


def read_unigrams(file: Path) -> list[str]:
    """Return the words of an ARPA file, <s> and other marks included. Raises UsageError if it has none."""
    words = []
    with open_text(file) as lines:
        inside = False
        for line in lines:
            if line.startswith("\\"):
                if inside:
                    break
                inside = line.startswith("\\1-grams:")
            elif inside and line.strip():
                if len(columns := line.split()) < 2:
                    raise UsageError(f"{file}: no n-gram: {line.strip()[:80]!r}")
                words.append(columns[1])
    if not words:
        raise UsageError(f"{file}: not an ARPA file (there is no \\1-grams: in it)")
    return words


COUNT = re.compile(r"ngram\s+[1-9]\d?\s*=\s*(\d{1,15})")
SHORTEST = 4
"""Bytes of an n-gram: a probability of one digit, a tab, a letter, the end of the line."""


def check_counts(file: Path) -> None:
    """Raises UsageError for counts that the file cannot hold: KenLM takes them at their word, and dies of -4."""
    most = None if file.suffix == ".gz" else file.stat().st_size // SHORTEST
    inside = False
    with open_text(file) as lines:
        for line in map(str.strip, lines):
            if inside and line.startswith("\\"):
                return
            if inside and line:
                match = COUNT.fullmatch(line)
                if match is None or (most is not None and int(match[1]) > most):
                    raise UsageError(f"{file}: no such number of n-grams in an ARPA file of its size: {line[:80]!r}")
            inside = inside or line == "\\data\\"


@contextmanager
def open_text(file: Path) -> Iterator[TextIO]:
    """Open a UTF-8 text file for reading, compressed (.gz) or not. Raises UsageError for a compressed one that is
    damaged.
    """
    try:
        with gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as content:
            yield io.TextIOWrapper(content, encoding="utf-8", errors="replace")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UsageError(f"{file}: damaged: {error}") from error


def write_arpa(file: Path, orders: Sequence[Sequence[Entry]]) -> None:
    """Write n-grams, one sequence of entries per order. An existing file is complete."""
    with whole_file(file) as temporary, temporary.open("w", encoding="utf-8") as output:
        output.write("\\data\\\n")
        output.writelines(f"ngram {n}={len(entries)}\n" for n, entries in enumerate(orders, start=1))
        for n, entries in enumerate(orders, start=1):
            output.write(f"\n\\{n}-grams:\n")
            output.writelines(_line(entry) for entry in entries)
        output.write("\n\\end\\\n")


def _line(entry: Entry) -> str:
    words, probability, backoff = entry
    weight = "" if backoff is None else f"\t{backoff:.7g}"
    return f"{probability:.7g}\t{' '.join(words)}{weight}\n"


def lower_case(source: Path, target: Path) -> None:
    """Write a copy in lower case, as the transcripts are. Raises UsageError if two words would become one."""
    originals: dict[str, str] = {}
    for word in read_unigrams(source):
        if word.lower() in originals:
            raise UsageError(f"{source}: {originals[word.lower()]!r} and {word!r} would be one word in lower case")
        originals[word.lower()] = word
    with open_text(source) as lines, whole_file(target) as temporary, temporary.open("w", encoding="utf-8") as output:
        output.writelines(_lowered(lines))


def _lowered(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield line.lower()  # numbers have no case but the e of 1e-05; \data\ and other marks are lower case already

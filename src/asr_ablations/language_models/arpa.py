"""ARPA files: n-grams with log10 probabilities and back-off weights, as SRILM, KenLM and others write them."""

import gzip
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from asr_ablations.tools.errors import UsageError

Entry = tuple[tuple[str, ...], float, float | None]
"""Words, log10 of the probability, log10 of the back-off weight; None for the highest order."""


def read_unigrams(file: Path) -> list[str]:
    """The words of an ARPA file, <s> and others among them. Raises UsageError where there are none."""
    words = []
    with opened(file) as lines:
        inside = False
        for line in lines:
            if line.startswith("\\"):
                if inside:
                    break
                inside = line.startswith("\\1-grams:")
            elif inside and line.strip():
                words.append(line.split()[1])
    if not words:
        raise UsageError(f"{file}: no ARPA file (there is no \\1-grams: in it)")
    return words


def opened(file: Path) -> Any:
    """Lines of a text file, compressed or not."""
    if file.suffix == ".gz":
        return gzip.open(file, "rt", encoding="utf-8", errors="replace")
    return file.open(encoding="utf-8", errors="replace")


def write_arpa(file: Path, orders: Sequence[Sequence[Entry]]) -> None:
    """Write n-grams, one sequence an order; a file that is there is whole."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    with temporary.open("w", encoding="utf-8") as out:
        out.write("\\data\\\n")
        out.writelines(f"ngram {n}={len(entries)}\n" for n, entries in enumerate(orders, start=1))
        for n, entries in enumerate(orders, start=1):
            out.write(f"\n\\{n}-grams:\n")
            out.writelines(_line(entry) for entry in entries)
        out.write("\n\\end\\\n")
    temporary.replace(file)


def _line(entry: Entry) -> str:
    words, probability, backoff = entry
    weight = "" if backoff is None else f"\t{backoff:.7g}"
    return f"{probability:.7g}\t{' '.join(words)}{weight}\n"


def lower_case(source: Path, target: Path) -> None:
    """A copy in lower case, as the transcripts are. Raises UsageError where two words would become one."""
    words = read_unigrams(source)
    seen: dict[str, str] = {}
    for word in words:
        if word.lower() in seen:
            raise UsageError(f"{source}: {seen[word.lower()]!r} and {word!r} would be one word in lower case")
        seen[word.lower()] = word
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    with opened(source) as lines, temporary.open("w", encoding="utf-8") as out:
        out.writelines(_lowered(lines))
    temporary.replace(target)


def _lowered(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield line.lower()  # numbers have no case but the e of 1e-05, \data\ and others are lower case already

"""Read plain-text transcripts: sclite's trn, Kaldi's text, icefall's recogs, SpeechBrain's wer files, and lines."""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from asr_verdicts.errors import UsageError
from asr_verdicts.text import clean
from asr_verdicts.texts.entries import Entry, Reading, Texts, unique

Lines = Sequence[tuple[int, str]]
RECOGS = re.compile(r"^(\S+):\t(ref|hyp)=(\[.*\])\s*$")
ALIGNED = re.compile(r"^(.+?), %WER \S+ \[ \d+ / \d+, \d+ ins, \d+ del, \d+ sub \]")
RULE = re.compile(r"^={10,}$")


def read_trn(path: Path, lines: Lines, reading: Reading) -> Texts:
    """Read sclite's trn file, with lines of the form `words (id)`. Lines that begin with ;; are comments."""
    entries = []
    for number, line in lines:
        if line.startswith(";;"):
            continue
        if (parts := split_trn(line)) is None:
            raise UsageError(f"{path}:{number}: expected words (id), found {line[:60]!r}")
        entries.append((number, Entry(*parts)))
    return Texts(str(path), "trn", unique(path, entries))


def split_trn(line: str) -> tuple[str, str] | None:
    """Split a line of a trn file into its id and its words. Return None if the line is malformed."""
    words, _, end = line.rstrip().rpartition("(")
    id_ = end.removesuffix(")")
    return None if id_ == end or ")" in id_ or id_.split() != [id_] else (id_, words.strip())


def read_kaldi(path: Path, lines: Lines, reading: Reading) -> Texts:
    """Read Kaldi's file `text`, with lines of the form `id words`, or only `id` for an utterance without words."""
    entries = []
    for number, line in lines:
        id_, _, words = line.strip().replace("\t", " ").partition(" ")
        entries.append((number, Entry(id_, words.strip())))
    hint = "; --format lines reads sentences without ids"
    return Texts(str(path), "kaldi", unique(path, entries, hint))


def read_lines(path: Path, lines: Lines, reading: Reading) -> Texts:
    """Read a file with one sentence per line. Line numbers serve as ids, and empty lines count as empty sentences."""
    last = lines[-1][0]
    texts = dict(lines)
    entries = [(number, Entry(str(number), texts.get(number, ""))) for number in range(1, last + 1)]
    return Texts(str(path), "lines", unique(path, entries))


def read_recogs(path: Path, lines: Lines, reading: Reading) -> Texts:
    """Read icefall's recogs-<set>-<…>.txt, with lines `id:<TAB>ref=['a', 'b']` and `id:<TAB>hyp=[…]` for each id."""
    sides: dict[str, dict[str, list[tuple[int, str]]]] = {}
    for number, line in lines:
        if (match := RECOGS.match(line)) is None:
            raise UsageError(f"{path}:{number}: expected id:<TAB>ref=[…] or hyp=[…], found {line[:60]!r}")
        sides.setdefault(clean(match[1]), {}).setdefault(match[2], []).append(
            (number, _parse_words(path, number, match[3]))
        )
    entries = []
    for id_, of_id in sides.items():
        for side in ("ref", "hyp"):
            matches = of_id.get(side, [])
            if len(matches) > 1:
                raise UsageError(
                    f"{path}:{matches[1][0]}: the id {id_} has a second {side}, first in line {matches[0][0]}"
                )
            if not matches:
                raise UsageError(f"{path}: the id {id_} has no {side}")
        (number, reference), (_, text) = of_id["ref"][0], of_id["hyp"][0]
        entries.append((number, Entry(id_, reference if reading.references else text, reference)))
    return Texts(str(path), "icefall", unique(path, entries))


def _parse_words(path: Path, number: int, text: str) -> str:
    """Parse a printed Python list of words without executing it, and return the words joined by spaces."""
    try:
        words = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise UsageError(f"{path}:{number}: expected a list of words in quotes, found {text[:60]!r}") from error
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise UsageError(f"{path}:{number}: expected a list of words in quotes, found {text[:60]!r}")
    return " ".join(words)


def read_speechbrain(path: Path, lines: Lines, reading: Reading) -> Texts:
    """Read SpeechBrain's wer_<set>.txt, which lists aligned words below the line ALIGNMENTS."""
    below = next((place for place, (_, line) in enumerate(lines) if line.strip() == "ALIGNMENTS"), None)
    if below is None:
        raise UsageError(f"{path}: expected a line ALIGNMENTS, which SpeechBrain writes below the summary")
    entries = []
    for block in _split_blocks(_read_below(path, lines[below][0])):
        if (match := ALIGNED.match(block[0][1])) is None:
            continue  # the block describes the format and is not an utterance
        number = block[0][0]
        if len(block) != 4:
            raise UsageError(f"{path}:{number}: {match[1]} has {len(block) - 1} lines of the alignment, expected 3")
        reference, hypothesis = (_join_aligned(block[place][1]) for place in (1, 3))
        entries.append((number, Entry(match[1], reference if reading.references else hypothesis, reference)))
    if not entries:
        raise UsageError(f"{path}: expected aligned utterances below ALIGNMENTS, found none")
    return Texts(str(path), "speechbrain", unique(path, entries))


def _read_below(path: Path, first: int) -> Lines:
    """Return all lines below line number `first`, including empty lines, which stand for empty hypotheses."""
    with path.open(encoding="utf-8-sig", newline="\n") as file:
        return [(number, line.rstrip("\r\n")) for number, line in enumerate(file, start=1) if number > first]


def _split_blocks(lines: Lines) -> Iterator[list[tuple[int, str]]]:
    """Yield the blocks of lines between rules of ====. Blocks of more than four lines lose trailing empty lines."""
    block: list[tuple[int, str]] = []
    for number, line in [*lines, (0, "=" * 80)]:
        if not RULE.match(line):
            block.append((number, line))
            continue
        while len(block) > 4 and not block[-1][1].strip():
            block.pop()
        if block:
            yield block
        block = []


def _join_aligned(line: str) -> str:
    words = (word.strip() for word in line.split(" ; "))
    return " ".join(word for word in words if word and word != "<eps>")

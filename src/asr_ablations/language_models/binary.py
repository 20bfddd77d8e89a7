"""KenLM's binaries, checked before KenLM reads them: it follows every number in them, out of its memory too.

What is checked is what reading depends on: sizes, and every number that is a place. A flipped bit in a probability is
no such number. The layout is that of KenLM's format 5 (https://github.com/kpu/kenlm: lm/binary_format.cc, lm/vocab.hh,
lm/search_hashed.hh, lm/search_trie.hh, lm/trie.hh, lm/bhiksha.cc, lm/quantize.hh).
"""

import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from asr_ablations.tools.errors import UsageError

FORMAT = b"mmap lm http://kheafield.com/code format version 5\n"
SANITY = struct.Struct("<56s3f3IQ")
"""The name of the format; numbers that another machine would read otherwise."""
PARAMETERS = struct.Struct("<B3xfiB3xI")
"""Order, buckets for each entry of a hash table, kind, whether the words follow, version of the kind."""
PROBING, REST, TRIE, QUANTISED, ARRAYS = 0, 1, 2, 1, 2
"""Kinds: two of hash tables; tries from TRIE, with QUANTISED and ARRAYS added."""
KINDS = 6
LONGEST_ORDER = 20
"""More than any KenLM is built for, which says itself up to which."""
AT_A_TIME = 2**20
"""Entries that are read at a time."""
WORD = np.dtype([("key", "<u8"), ("index", "<u4")])


class Ends(NamedTuple):
    """The end of the n-grams, and the number of words that follow, <unk> among them."""

    place: int
    words: int


class Header(NamedTuple):
    """The header of a binary. counts: n-grams of each order; size: its bytes, a multiple of 8."""

    kind: int
    buckets: float
    has_words: bool
    counts: tuple[int, ...]
    size: int


def checked_words(file: Path) -> list[str]:
    """The words of a binary, <unk> first. Raises UsageError for one without words, and for one in which KenLM would
    read beyond what is there, or search for ever.
    """
    with file.open("rb") as opened:
        try:
            header = _header(opened)
            ngrams = _check_tables(opened, header) if header.kind < TRIE else _check_trie(opened, header)
            if not header.has_words:
                raise UsageError(f"{file}: contains no words; build_binary writes them unless an option says otherwise")
            return _words(opened, ngrams)
        except (struct.error, OverflowError, EOFError):
            raise _damaged(file, "it ends too early") from None
        except DamageError as damage:
            raise _damaged(file, str(damage)) from None


class DamageError(Exception):
    """The fault in a damaged file."""


def _require(holds: object, words: str) -> None:
    if not holds:
        raise DamageError(words)


def _damaged(file: Path, words: str) -> UsageError:
    return UsageError(f"{file}: a KenLM binary that is damaged: {words}")


def _header(opened: BinaryIO) -> Header:
    name, *numbers = SANITY.unpack(opened.read(SANITY.size))
    _require(name.rstrip(b"\0") == FORMAT and numbers[:4] == [0.0, 1.0, -0.5, 1], "its head is none of format 5")
    order, buckets, kind, has_words, _ = PARAMETERS.unpack(opened.read(PARAMETERS.size))
    _require(2 <= order <= LONGEST_ORDER, f"{order} orders of n-grams")
    _require(0 <= kind < KINDS, f"no kind of model has the number {kind}")
    _require(1 <= buckets < 1e6, f"{buckets:g} places in its tables for each n-gram")
    counts = struct.unpack(f"<{order}Q", opened.read(8 * order))
    size = opened.seek(0, 2)
    _require(max(counts) <= 8 * size, f"{max(counts)} n-grams in {size} bytes")
    return Header(kind, buckets, bool(has_words), counts, -(-(SANITY.size + PARAMETERS.size + 8 * order) // 8) * 8)


def _words(opened: BinaryIO, ngrams: Ends) -> list[str]:
    """Each ends with a zero byte."""
    opened.seek(ngrams.place)
    *words, rest = opened.read().split(b"\0")
    _require(not rest and words[:1] == [b"<unk>"], "its list of words")
    _require(len(words) == ngrams.words, f"{len(words)} words, of {ngrams.words}")
    return [word.decode("utf-8", errors="replace") for word in words]


def _check_tables(opened: BinaryIO, header: Header) -> Ends:
    """Check hash tables: the words' numbers, and an empty place in each table, where a search ends."""
    counts, value = header.counts, 12 if header.kind == REST else 8
    opened.seek(header.size)
    _, words = struct.unpack("<2I", opened.read(8))
    _require(words <= counts[0] + 1, f"{words} words, and {counts[0]} of them have a probability")
    place = _check_table(opened, header.size + 8, _buckets(header, counts[0]), WORD, words)
    place += (counts[0] + 1) * value  # of single words: a list
    for count in counts[1:-1]:
        place = _check_table(opened, place, _buckets(header, count), _entry(8 + value))
    return Ends(_check_table(opened, place, _buckets(header, counts[-1]), _entry(12)), words)


def _check_table(opened: BinaryIO, place: int, buckets: int, kind: np.dtype[Any], words: int | None = None) -> int:
    """Returns its end. words: how many there are, for the table of words."""
    has_empty = False
    for entries in _pieces(opened, place, buckets, kind):
        has_empty = has_empty or not entries["key"].all()
        is_known = words is None or (entries["index"] < words).all()
        _require(is_known, "a word with a number beyond those of the words")
    _require(has_empty, "a table without an empty place")
    return place + buckets * kind.itemsize


def _entry(size: int) -> np.dtype[Any]:
    return np.dtype({"names": ["key"], "formats": ["<u8"], "itemsize": size})


def _buckets(header: Header, count: int) -> int:
    return max(count + 1, int(np.float32(header.buckets) * np.float32(count)))


def _check_trie(opened: BinaryIO, header: Header) -> Ends:
    """Check a trie: the continuations of an n-gram begin where the continuations of the previous n-gram end."""
    counts, kind = header.counts, header.kind - TRIE
    opened.seek(header.size)
    (words,) = struct.unpack("<Q", opened.read(8))
    _require(words <= counts[0], f"{words} words, and {counts[0]} of them have a probability")
    place = header.size + 8 + 8 * counts[0]
    middle, longest = 63, 31
    if kind & QUANTISED:
        opened.seek(place)
        _, probability, backoff = struct.unpack("<3B", opened.read(3))
        _require(1 <= probability <= 25 and 1 <= backoff <= 25, f"{probability} and {backoff} bits for a number")
        middle, longest = probability + backoff, probability
        place += 4 * ((len(counts) - 2) * (2**probability + 2**backoff) + 2**probability) + 8
    _check_rising(_unigrams(opened, place, counts[0]), counts[1])
    place += (counts[0] + 2) * 16
    for count, following in pairwise(counts[1:]):
        place = _check_middle(opened, place, _Middle(counts[0], middle, count, following), bool(kind & ARRAYS))
    return Ends(place + _packed(counts[-1], counts[0].bit_length() + longest), words + 1)


class _Middle(NamedTuple):
    """N-grams of an order between the first and the last. words: in the vocabulary; bits: of a probability with its
    back-off weight; number: of these n-grams; following: of those of the next order.
    """

    words: int
    bits: int
    number: int
    following: int


def _check_middle(opened: BinaryIO, place: int, ngrams: _Middle, arrays: bool) -> int:
    """Returns the end of this order."""
    inline, high = ngrams.following.bit_length(), None
    if arrays:
        opened.seek(place)
        _, most = struct.unpack("<2B", opened.read(2))
        chopped = _chopped(ngrams.number + 1, ngrams.following, most)
        number = (ngrams.following >> (inline - chopped)) + 1
        high = np.concatenate([*_pieces(opened, -(-place // 8) * 8 + 8, number, "<u8")])
        _require(high[0] == 0 and (np.diff(high.astype(np.int64)) >= 0).all(), "places of n-grams that do not rise")
        place += 8 * (1 + number) + 7
        inline -= chopped
    total = ngrams.words.bit_length() + ngrams.bits + inline
    places = _unpacked(opened, place, ngrams.number + 1, total, total - inline, inline)
    _check_rising(places if high is None else _with_high(places, high, inline), ngrams.following)
    return place + _packed(ngrams.number, total)


def _with_high(pieces: Iterator[NDArray[Any]], high: NDArray[Any], inline: int) -> Iterator[NDArray[Any]]:
    """Numbers of which a table has the upper bits: how many of its places are not above theirs."""
    at = 0
    for piece in pieces:
        upper = np.searchsorted(high, np.arange(at, at + len(piece), dtype=np.uint64), "right") - 1
        yield (upper.astype(np.uint64) << np.uint64(inline)) | piece
        at += len(piece)


def _chopped(entries: int, following: int, most: int) -> int:
    """Return the bits that KenLM leaves to the table: the cheapest number, as in its ChopBits."""
    required = following.bit_length()
    costs = [(following >> (required - chop)) * 64 - entries * chop for chop in range(min(required, most) + 1)]
    return costs.index(min(costs))


def _check_rising(pieces: Iterator[NDArray[Any]], most: int) -> None:
    last = 0
    for piece in pieces:
        rises = len(piece) == 0 or (piece[0] >= last and (piece[1:] >= piece[:-1]).all() and piece[-1] <= most)
        _require(rises, "places of n-grams that do not rise, or lead beyond them")
        last = piece[-1] if len(piece) else last


def _unigrams(opened: BinaryIO, place: int, count: int) -> Iterator[NDArray[Any]]:
    """The first n-gram that ends in each word, and the end of the last n-grams."""
    entry = np.dtype({"names": ["next"], "formats": ["<u8"], "offsets": [8], "itemsize": 16})
    return (piece["next"] for piece in _pieces(opened, place, count + 1, entry))


def _packed(entries: int, bits: int) -> int:
    """Bytes of so many entries; KenLM adds one entry, and 8 bytes."""
    return ((1 + entries) * bits + 7) // 8 + 8


def _unpacked(
    opened: BinaryIO, place: int, entries: int, bits: int, offset: int, width: int
) -> Iterator[NDArray[np.uint64]]:
    """The numbers of `width` bits at bit `offset` of entries of `bits` bits."""
    step = AT_A_TIME // 8 * 8  # so that each piece begins with a byte
    for first in range(0, entries, step):
        number = min(step, entries - first)
        content = np.concatenate([*_pieces(opened, place + first * bits // 8, (number * bits + 7) // 8 + 8, "u1")])
        starts = np.arange(number, dtype=np.int64) * bits + offset
        words = sum(content[(starts >> 3) + at].astype(np.uint64) << np.uint64(8 * at) for at in range(8))
        yield (words >> (starts & 7).astype(np.uint64)) & np.uint64(2**width - 1)


def _pieces(opened: BinaryIO, place: int, number: int, kind: DTypeLike) -> Iterator[NDArray[Any]]:
    """So many entries from a place on. Raises EOFError where there are fewer."""
    for first in range(0, number, AT_A_TIME):
        wanted = min(AT_A_TIME, number - first)
        opened.seek(place + first * np.dtype(kind).itemsize)
        content = opened.read(wanted * np.dtype(kind).itemsize)
        if len(content) < wanted * np.dtype(kind).itemsize:
            raise EOFError
        yield np.frombuffer(content, kind)

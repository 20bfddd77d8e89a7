"""KenLM n-gram models for decoders, with their vocabularies."""

import bisect
import functools
import math
import mmap
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import kenlm

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.language_models.ngram import lower_case, read_unigrams
from asr_verdicts.errors import UsageError
from asr_verdicts.files import write
from asr_verdicts.text import clean, decode, lower

WORDS = "words.txt"  # the word list that src/lm.py writes next to its model


def locate(key: str, path: str | None, names: Sequence[str], expected: str) -> Path:
    """Return the file that decoder.<key> names; in a folder, the first of `names`. Raises UsageError if missing."""
    if not path:
        raise UsageError(f"decoder.{key} is not set: expected {expected}")
    folder = Path(str(path))
    candidates = [folder / name for name in names] if folder.is_dir() else [folder]
    file = next((candidate for candidate in candidates if candidate.is_file()), None)
    if file is None:
        raise UsageError(f"decoder.{key}={path}: there is no such file; expected {expected}")
    return file


def read_words(path: str | None, alphabet: Alphabet) -> tuple[Path, list[str]]:
    """Return a word list's file and its words, one per line, without repetitions.

    Raises UsageError for a missing or empty list, and for words with letters outside the alphabet.
    """
    file = locate("words", path, [WORDS], "a file with one word per line, or a folder written by src/lm.py")
    words = list(dict.fromkeys(clean(decode(file.read_bytes(), file)).split()))
    if not words:
        raise UsageError(f"decoder.words={path}: it contains no words")
    if odd := unspellable(words, alphabet):
        raise UsageError(
            f"decoder.words={path}: {len(odd)} of {len(words)} words cannot be spelled with the alphabet "
            f"{alphabet.letters!r}, for example {odd[0]!r}"
        )
    return file, words


def unspellable(words: Collection[str], alphabet: Alphabet) -> list[str]:
    """Return the words with a character that is not a letter of the alphabet."""
    letters = set(alphabet.letters)
    return [word for word in words if not letters.issuperset(word)]


NATS = math.log(10)  # nats per unit of log10, which ARPA files and KenLM use
SPACE = "|"  # represents the space in a model of characters
BINARY, ARPA, RECURRENT, RECORD = "lm.binary", "lm.arpa", "lm.pt", "lm.json"
"""Files that src/lm.py writes to a model's folder: lm.binary if build_binary is installed, lm.pt for an LSTM."""
MARKS = ("<s>", "</s>", "<unk>")
ENOUGH = 0.9  # minimum share of a model's words that the alphabet can spell; the others are ignored


@dataclass(frozen=True)
class WordModel:
    """An n-gram model, its sorted words, and its file."""

    ngrams: kenlm.Model
    words: list[str]
    file: Path

    def begins(self, letters: str) -> bool:
        """Return whether a known word starts with these letters."""
        index = bisect.bisect_left(self.words, letters)
        return index < len(self.words) and self.words[index].startswith(letters)


def load_words(path: str | None, alphabet: Alphabet) -> WordModel:
    """Load a model of words. Raises UsageError if it is missing, damaged, or has other letters or another case."""
    model = load(path)
    odd = unspellable(model.words, alphabet)
    if not model.words or len(odd) > (1 - ENOUGH) * len(model.words):
        other_form = sum(lower(clean(word)) != word for word in odd) > len(odd) / 2
        remedy = "; case or Unicode form differ: python src/lm.py lm=arpa lm.file=<file> writes a suitable copy"
        raise UsageError(
            f"decoder.lm={path}: {len(odd)} of its {len(model.words)} words cannot be spelled with the alphabet "
            f"{alphabet.letters!r}, for example {(odd or ['none'])[0]!r}{remedy if other_form else ''}"
        )
    if len(alphabet.letters) > 2 and all(len(word) == 1 for word in model.words) and SPACE in model.words:
        raise UsageError(f"decoder.lm={path}: a model of characters; use decoder=beam_charlm")
    return model


def load_characters(path: str | None, alphabet: Alphabet) -> WordModel:
    """Load a model of characters. Raises UsageError like load_words, and for a model of words."""
    model = load(path)
    if any(len(word) > 1 for word in model.words):
        raise UsageError(f"decoder.lm={path}: a model of words; use decoder=beam_lm, or estimate a model of characters "
                         "with python src/lm.py lm.unit=character")  # fmt: skip
    odd = set(model.words) - {SPACE, *alphabet.letters}
    if not model.words or odd or not set(model.words) - {SPACE}:
        raise UsageError(f"decoder.lm={path}: its characters {' '.join(sorted(odd))} are not in the alphabet "
                         f"{alphabet.letters!r}")  # fmt: skip
    return model


def load(path: str | None) -> WordModel:
    """Load a model with any unit, in a folder the file that loads faster. Raises UsageError if missing or damaged."""
    file = locate("lm", path, [BINARY, ARPA], "an ARPA file, a KenLM binary, or a folder written by src/lm.py")
    return _read(file, file.stat().st_mtime_ns)


@functools.lru_cache(maxsize=8)
def _read(file: Path, changed: int) -> WordModel:
    """Read a model once for all decoders. changed: the file's time, so that a changed file is read again."""
    with file.open("rb") as opened:
        is_binary = opened.read(len(MAGIC)) == MAGIC
    vocabulary = read_binary_words(file) if is_binary else read_unigrams(file)
    config = kenlm.Config()
    config.show_progress = False
    with _silence_stderr():
        try:
            ngrams = kenlm.Model(str(file), config)
        except (OSError, RuntimeError, MemoryError, UnicodeDecodeError) as error:
            reason = " ".join(str(error).split())[-200:]  # the beginning quotes lines of KenLM's source
            raise UsageError(f"{file}: KenLM cannot read it: {reason}") from error
    words = sorted(word for word in vocabulary if word.lower() not in MARKS)
    if any(word not in ngrams for word in words):
        raise UsageError(f"{file}: damaged, because its list of words does not belong to the model")
    return WordModel(ngrams, words, file)


@contextmanager
def _silence_stderr() -> Iterator[None]:
    """Discard output to the file descriptor of stderr, to which KenLM writes advice without using Python."""
    stderr, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    os.close(null)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


def install(file: Path, folder: Path, language: str) -> dict[str, object]:
    """Write the lower-case copy of a model and its word list, and return its record. Raises UsageError."""
    lower_case(file, folder / ARPA, language)
    words = sorted(set(read_unigrams(folder / ARPA)) - set(MARKS))
    write(folder / WORDS, "".join(f"{word}\n" for word in words))
    return {"unit": "word", "vocabulary": len(words), "estimator": "none, an existing model"}


MAGIC = b"mmap lm"  # the beginning of every KenLM binary; other files are read as ARPA
FORMAT = MAGIC + b" http://kheafield.com/code format version 5\n"
HAS_WORDS = 100  # header byte that is not 0 if the words are stored at the end of the file
FIRST = b"<unk>\0"  # the first word; each word ends with a zero byte


def read_binary_words(file: Path) -> list[str]:
    """Return the words of a KenLM binary, <unk> first. Raises UsageError for other formats, and without words."""
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if content[: len(FORMAT)] != FORMAT or len(content) <= HAS_WORDS:
            raise UsageError(f"{file}: a damaged KenLM binary, or one of another format than 5")
        if not content[HAS_WORDS]:
            raise UsageError(f"{file}: contains no words; build_binary includes them unless an option prevents it")
        begin = content.rfind(FIRST)
        if begin < 0 or content[-1]:
            raise UsageError(f"{file}: a damaged KenLM binary: its list of words is truncated")
        return [word.decode("utf-8", errors="replace") for word in content[begin:-1].split(b"\0")]

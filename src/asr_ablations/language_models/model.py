"""KenLM n-gram models for decoders, with their vocabularies."""

import bisect
import functools
import math
import mmap
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import kenlm

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.language_models.ngram import lower_case, read_unigrams
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.files import write
from asr_verdicts.text import clean, decode, lower

WORDS = "words.txt"  # the word list that src/lm.py writes next to its model


def read_words(path: str | None, alphabet: Alphabet) -> tuple[Path, list[str]]:
    """Return a word list's file and its words, one per line, without repetitions.

    Raises UsageError for a missing or empty list, and for words with letters outside the alphabet.
    """
    if not path:
        raise UsageError("decoder.words is not set: expected a file with one word per line, or a folder from src/lm.py")
    if not isinstance(path, str):
        raise choices("decoder.words", path, "the path of a file or folder")
    file = Path(path) / WORDS if Path(path).is_dir() else Path(path)
    try:
        words = list(dict.fromkeys(clean(decode(file.read_bytes(), file)).split()))
    except OSError as error:
        raise UsageError(f"decoder.words={path}: cannot be read ({error})") from error
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

    def knows(self, word: str) -> bool:
        return word in self.ngrams

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
    """Load a model with any unit. Raises UsageError if it is missing or unreadable."""
    if not path:
        raise UsageError("decoder.lm is not set: expected an ARPA file, a KenLM binary, or a folder from src/lm.py")
    if not isinstance(path, str):
        raise choices("decoder.lm", path, "the path of a file or folder")
    file = find(Path(path))
    return _read(file, file.stat().st_mtime_ns, path)


@functools.lru_cache(maxsize=8)
def _read(file: Path, changed: int, path: str) -> WordModel:
    """Read a model once for all decoders. changed: the file's time, so that a changed file is read again."""
    vocabulary = read_unigrams(file) if is_arpa(file) else read_binary_words(file)
    config = kenlm.Config()
    config.show_progress = False
    with _silence_stderr():
        try:
            ngrams = kenlm.Model(str(file), config)
        except (OSError, RuntimeError, MemoryError, UnicodeDecodeError) as error:
            raise UsageError(f"decoder.lm={path}: KenLM cannot read it: {_shorten(error)}") from error
    words = sorted(word for word in vocabulary if word.lower() not in MARKS)
    if any(word not in ngrams for word in words):
        raise UsageError(f"decoder.lm={path}: damaged, because its list of words does not belong to the model")
    return WordModel(ngrams, words, file)


def find(path: Path) -> Path:
    """Return the model's file; in a folder, the one that loads faster. Raises UsageError if it is missing."""
    candidates = [path / BINARY, path / ARPA] if path.is_dir() else [path]
    file = next((candidate for candidate in candidates if candidate.is_file()), None)
    if file is None:
        raise UsageError(f"decoder.lm={path}: there is no such file; expected an ARPA file, a KenLM binary, or a "
                         "folder written by src/lm.py")  # fmt: skip
    return file


def is_arpa(file: Path) -> bool:
    """Return whether to read a file as ARPA: all except KenLM's binaries, which start with "mmap lm"."""
    with file.open("rb") as opened:
        return opened.read(7) != b"mmap lm"


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


def _shorten(error: BaseException) -> str:
    """Return the end of KenLM's message, which starts with lines of its source."""
    text = " ".join(str(error).split()).rstrip(")")
    return text.rpartition("Exception ")[2].rpartition("Exception. ")[2].rpartition("because ")[2][:200] or text[:200]


def install(file: Path, folder: Path, language: str) -> dict[str, object]:
    """Write the lower-case copy of a model and its word list, and return its record. Raises UsageError."""
    lower_case(file, folder / ARPA, language)
    words = sorted(set(read_unigrams(folder / ARPA)) - set(MARKS))
    write(folder / WORDS, "".join(f"{word}\n" for word in words))
    return {"unit": "word", "vocabulary": len(words), "estimator": "none, an existing model"}


FORMAT = b"mmap lm http://kheafield.com/code format version 5\n"
HAS_WORDS = 100  # header byte that is not 0 if the words are stored at the end of the file
FIRST = b"<unk>\0"  # the first word; each word ends with a zero byte


def read_binary_words(file: Path) -> list[str]:
    """Return the words of a KenLM binary, <unk> first. Raises UsageError for other formats, and without words."""
    if file.stat().st_size <= HAS_WORDS:
        raise UsageError(f"{file}: a damaged KenLM binary: its header is truncated")
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if content[: len(FORMAT)] != FORMAT:
            raise UsageError(f"{file}: not a KenLM binary of format 5")
        begin = content.rfind(FIRST)
        if not content[HAS_WORDS]:
            raise UsageError(f"{file}: contains no words; build_binary includes them unless an option prevents it")
        if begin < 0 or content[-1]:
            raise UsageError(f"{file}: a damaged KenLM binary: its list of words is truncated")
        return [word.decode("utf-8", errors="replace") for word in content[begin:-1].split(b"\0")]

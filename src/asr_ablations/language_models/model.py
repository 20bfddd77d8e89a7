"""Load KenLM n-gram models and word lists for decoders, and measure how well a model fits sentences."""

import bisect
import functools
import math
import mmap
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.language_models.ngram import lower_case, read_unigrams
from asr_ablations.tools.errors import require
from asr_verdicts.errors import UsageError
from asr_verdicts.files import write
from asr_verdicts.text import clean, decode, lower

if TYPE_CHECKING:
    import kenlm

WORDS = "words.txt"  # the word list that src/lm.py writes next to a model


def locate(key: str, path: str | None, names: Sequence[str], expected: str) -> Path:
    """Return the file `path`, or the first of `names` in the folder `path`. Raise UsageError if there is none."""
    if not path:
        raise UsageError(f"decoder.{key} is not set: expected {expected}")
    folder = Path(str(path))
    candidates = [folder / name for name in names] if folder.is_dir() else [folder]
    file = next((candidate for candidate in candidates if candidate.is_file()), None)
    if file is None:
        raise UsageError(f"decoder.{key}={path}: there is no such file; expected {expected}")
    return file


def read_words(path: str | None, alphabet: Alphabet) -> tuple[Path, list[str]]:
    """Read a word list, with one word per line. Return its file, and the words without repetitions.

    Raise UsageError if the list is missing or empty, or if a word contains letters outside the alphabet.
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


NATS = math.log(10)  # nats per unit of log10; ARPA files and KenLM use log10
SPACE = "|"  # represents the space in a character model
BINARY, ARPA, RECURRENT, RECORD = "lm.binary", "lm.arpa", "lm.pt", "lm.json"
"""Files that src/lm.py writes to a model folder: lm.binary only if build_binary is installed, lm.pt for an LSTM."""
MARKS = ("<s>", "</s>", "<unk>")
ENOUGH = 0.9  # minimum share of words that the alphabet can spell; other words are ignored


@dataclass(frozen=True)
class WordModel:
    """An n-gram model with its file and its sorted words (characters, in a character model)."""

    ngrams: "kenlm.Model"
    words: list[str]
    file: Path

    def begins(self, letters: str) -> bool:
        """Return whether a word of the model begins with the given letters."""
        index = bisect.bisect_left(self.words, letters)
        return index < len(self.words) and self.words[index].startswith(letters)


def load_words(path: str | None, alphabet: Alphabet) -> WordModel:
    """Load a word model. Raise UsageError if it is missing or damaged, or if the alphabet cannot spell its words."""
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
    """Load a character model. Raise UsageError if it is missing, damaged, or does not fit the alphabet."""
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
    """Load a word or character model; in a folder, prefer the KenLM binary. Raise UsageError if missing or damaged."""
    file = locate("lm", path, [BINARY, ARPA], "an ARPA file, a KenLM binary, or a folder written by src/lm.py")
    return _read(file, file.stat().st_mtime_ns)


@functools.lru_cache(maxsize=8)
def _read(file: Path, changed: int) -> WordModel:
    """Read a model file once for all decoders, and again if `changed` (its modification time) differs."""
    require("decode", "a language model", "kenlm")
    import kenlm

    with file.open("rb") as opened:
        is_binary = opened.read(len(MAGIC)) == MAGIC
    vocabulary = read_binary_words(file) if is_binary else read_unigrams(file)
    config = kenlm.Config()
    config.show_progress = False
    with _silence_stderr():
        try:
            ngrams = kenlm.Model(str(file), config)
        except (OSError, RuntimeError, MemoryError, UnicodeDecodeError) as error:
            reason = " ".join(str(error).split())[-200:]  # KenLM's messages begin with lines of its source code
            raise UsageError(f"{file}: KenLM cannot read it: {reason}") from error
    words = sorted(word for word in vocabulary if word.lower() not in MARKS)
    if any(word not in ngrams for word in words):
        raise UsageError(f"{file}: damaged, because its list of words does not belong to the model")
    return WordModel(ngrams, words, file)


@contextmanager
def _silence_stderr() -> Iterator[None]:
    """Discard output to the file descriptor of stderr, because KenLM's C++ code prints advice there."""
    stderr, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    os.close(null)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


def units(words: Sequence[str], unit: str) -> list[str]:
    """Split a sentence into the units of a model, which are words or characters."""
    return list(words) if unit == "word" else [SPACE if c == " " else c for c in " ".join(words)]


Fit: TypeAlias = dict[str, float]
"""Measures of a model's fit to sentences, by name. oov_rate is the share of words that the model does not know."""


def fit(ngrams: "kenlm.Model", sentences: Iterable[Sequence[str]], unit: str) -> Fit:
    """Measure how well a model fits sentences. The perplexity is over words and sentence ends, as in KenLM's `query`,
    with and without unknown words. The entropy is in bits per word.
    """
    total = without_oov = 0.0
    words = unknown = ends = 0
    for sentence in sentences:
        ends += 1
        for score, _, oov in ngrams.full_scores(" ".join(units(sentence, unit))):
            total += score
            without_oov += 0.0 if oov else score
            words, unknown = words + 1, unknown + oov
    counted = max(1, words)  # including sentence ends
    return {
        "sentences": ends,
        "words": words - ends,
        "oov_rate": unknown / max(1, words - ends),
        "perplexity": 10 ** (-total / counted),
        "perplexity_without_oov": 10 ** (-without_oov / max(1, words - unknown)),
        "bits_per_word": -total * math.log2(10) / max(1, words - ends),
    }


def install(file: Path, folder: Path, language: str) -> dict[str, object]:
    """Write a lower-case copy of a model, and its word list, to a folder. Return the model's record."""
    lower_case(file, folder / ARPA, language)
    words = sorted(set(read_unigrams(folder / ARPA)) - set(MARKS))
    write(folder / WORDS, "".join(f"{word}\n" for word in words))
    return {"unit": "word", "vocabulary": len(words), "estimator": "none, an existing model"}


MAGIC = b"mmap lm"  # the beginning of every KenLM binary; other files are read as ARPA
FORMAT = MAGIC + b" http://kheafield.com/code format version 5\n"
HAS_WORDS = 100  # index of the header byte that is not 0 if the words are stored at the end of the file
FIRST = b"<unk>\0"  # the first word in a file; a zero byte ends each word


def read_binary_words(file: Path) -> list[str]:
    """Return the words of a KenLM binary, <unk> first. Raise UsageError for an unknown format or missing words."""
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if content[: len(FORMAT)] != FORMAT or len(content) <= HAS_WORDS:
            raise UsageError(f"{file}: a damaged KenLM binary, or one in a format other than 5")
        if not content[HAS_WORDS]:
            raise UsageError(f"{file}: contains no words; build_binary includes them unless an option prevents it")
        begin = content.rfind(FIRST)
        if begin < 0 or content[-1]:
            raise UsageError(f"{file}: a damaged KenLM binary: its list of words is truncated")
        return [word.decode("utf-8", errors="replace") for word in content[begin:-1].split(b"\0")]

"""n-gram models as decoders use them: KenLM's, with the words they know."""

import bisect
import functools
import math
import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kenlm

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.language_models.arpa import read_unigrams
from asr_ablations.language_models.words import unspellable
from asr_ablations.tools.errors import UsageError

NATS = math.log(10)
"""Of a base 10 logarithm, which ARPA files and KenLM have."""
SPACE = "|"
"""The space in a model of characters."""
BINARY, ARPA = "lm.binary", "lm.arpa"
"""What src/lm.py leaves in a model's folder; the first where KenLM's build_binary was found."""
MARKS = ("<s>", "</s>", "<unk>")
ENOUGH = 0.9
"""The share of a model's words that the alphabet must be able to spell; others have no effect."""


@dataclass(frozen=True)
class WordModel:
    """An n-gram model and its words, sorted. file: where it was read from."""

    ngrams: Any
    words: list[str]
    file: Path

    def knows(self, word: str) -> bool:
        return word in self.ngrams

    def begins(self, letters: str) -> bool:
        """Whether a known word begins so."""
        place = bisect.bisect_left(self.words, letters)
        return place < len(self.words) and self.words[place].startswith(letters)


def load_words(path: str | None, alphabet: Alphabet) -> WordModel:
    """A model of words. Raises UsageError for one that is missing, damaged, or of other letters or another case."""
    model = load(path)
    odd = unspellable(model.words, alphabet)
    if not model.words or len(odd) > (1 - ENOUGH) * len(model.words):
        lower = sum(word.lower() != word for word in odd) > len(odd) / 2
        mend = ": its case differs, python src/lm.py lm.arpa=<file> makes a lower-case copy" if lower else ""
        raise UsageError(
            f"decoder.lm={path}: {len(odd)} of its {len(model.words)} words cannot be spelled with the alphabet "
            f"{alphabet.characters!r}, as {(odd or ['none'])[0]!r}{mend}"
        )
    if len(alphabet.characters) > 2 and all(len(word) == 1 for word in model.words) and SPACE in model.words:
        raise UsageError(f"decoder.lm={path}: a model of characters; decoder=beam_charlm takes it")
    return model


def load_characters(path: str | None, alphabet: Alphabet) -> WordModel:
    """A model of characters. Raises UsageError as load_words, and for a model of words."""
    model = load(path)
    if any(len(word) > 1 for word in model.words):
        raise UsageError(f"decoder.lm={path}: a model of words; decoder=beam_lm takes it, or make one of characters "
                         "with python src/lm.py lm.unit=character")  # fmt: skip
    odd = set(model.words) - {SPACE, *alphabet.characters}
    if not model.words or odd or not set(model.words) - {SPACE}:
        raise UsageError(f"decoder.lm={path}: its characters {' '.join(sorted(odd))} are not of the alphabet "
                         f"{alphabet.characters!r}")  # fmt: skip
    return model


def load(path: str | None) -> WordModel:
    """Raises UsageError for a model that is missing or cannot be read."""
    if not path:
        raise UsageError("decoder.lm is not set: an ARPA file, a KenLM binary, or the folder that src/lm.py left")
    file = find(Path(path))
    return _read(file, file.stat().st_mtime_ns, path)


@functools.lru_cache(maxsize=8)
def _read(file: Path, changed: int, path: str) -> WordModel:
    """Once for all decoders that use it."""
    config = kenlm.Config()
    config.show_progress = False
    with _silence():
        try:
            ngrams = kenlm.Model(str(file), config)
        except (OSError, RuntimeError, MemoryError) as error:
            raise UsageError(f"decoder.lm={path}: KenLM cannot read it: {_short(error)}") from error
    listed = read_unigrams(file) if is_arpa(file) else _binary_words(file)
    words = sorted(word for word in listed if word.lower() not in MARKS)
    if any(word not in ngrams for word in words[:100]):
        raise UsageError(f"decoder.lm={path}: damaged, its list of words is not the model's")
    return WordModel(ngrams, words, file)


def find(path: Path) -> Path:
    """The model's file, of a folder that src/lm.py left the quicker one. Raises UsageError where there is none."""
    files = [path / BINARY, path / ARPA] if path.is_dir() else [path]
    found = next((file for file in files if file.is_file()), None)
    if found is None:
        raise UsageError(f"decoder.lm={path}: there is no such file; expected an ARPA file, a KenLM binary, or the "
                         "folder that src/lm.py left")  # fmt: skip
    return found


def is_arpa(file: Path) -> bool:
    """KenLM's binaries begin with "mmap lm"; everything else is taken for an ARPA file."""
    with file.open("rb") as opened:
        return opened.read(7) != b"mmap lm"


def _binary_words(file: Path) -> list[str]:
    """KenLM's build_binary appends the words, each ended by a zero, the unknown word first."""
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        start = content.rfind(b"<unk>\0")
        if start < 0:
            raise UsageError(
                f"decoder.lm={file}: has no words in it; build_binary writes them unless it is told not to"
            )
        return content[start:].decode("utf-8", errors="replace").rstrip("\0").split("\0")


class _silence:  # noqa: N801
    """KenLM writes advice to the file descriptor of stderr, past Python."""

    def __enter__(self) -> None:
        self.kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 2)
        os.close(nothing)

    def __exit__(self, *_: object) -> None:
        os.dup2(self.kept, 2)
        os.close(self.kept)


def _short(error: BaseException) -> str:
    """The end of KenLM's message, which begins with its own source lines."""
    text = " ".join(str(error).split()).rstrip(")")
    return text.rpartition("Exception ")[2].rpartition("Exception. ")[2].rpartition("because ")[2][:200] or text[:200]

"""Word lists of a lexicon or a language model."""

from collections.abc import Collection
from pathlib import Path

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.tools.errors import UsageError, choices

WORDS = "words.txt"
"""The word list that src/lm.py writes beside its model."""


def read_words(path: str | None, alphabet: Alphabet) -> tuple[Path, list[str]]:
    """Return the file of a word list, and its words, each once, in their order. The file has one word per line.

    Raises UsageError for a list that is missing or empty, and for a word that the alphabet cannot spell.
    """
    if not path:
        raise UsageError("decoder.words is not set: a file with one word per line, or a folder written by src/lm.py")
    if not isinstance(path, str):
        raise choices("decoder.words", path, "the path of a file or folder")
    file = Path(path) / WORDS if Path(path).is_dir() else Path(path)
    try:
        words = list(dict.fromkeys(file.read_text(encoding="utf-8").split()))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"decoder.words={path}: cannot be read ({error})") from error
    if not words:
        raise UsageError(f"decoder.words={path}: there is no word in it")
    if odd := unspellable(words, alphabet):
        raise UsageError(
            f"decoder.words={path}: {len(odd)} of {len(words)} words cannot be spelled with the alphabet "
            f"{alphabet.letters!r}, for example {odd[0]!r}"
        )
    return file, words


def unspellable(words: Collection[str], alphabet: Alphabet) -> list[str]:
    """Return the words with a character that is no letter of the alphabet."""
    letters = set(alphabet.letters)
    return [word for word in words if not letters.issuperset(word)]

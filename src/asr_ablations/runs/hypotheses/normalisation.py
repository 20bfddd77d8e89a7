"""What is done to both sides of a comparison of texts before words are counted."""

import unicodedata
import warnings
from collections.abc import Callable
from functools import lru_cache

from asr_ablations.tools.errors import choices, require

NAMES = ("none", "case", "punctuation", "whisper")
MEANING = {
    "none": "words as they are written: case and punctuation count",
    "case": "words in lower case",
    "punctuation": "words in lower case and without punctuation, apostrophes within words kept",
    "whisper": "words after Whisper's English normalizer",
}
"""What was scored, by the name of a normalisation."""
APOSTROPHES = str.maketrans({"\N{RIGHT SINGLE QUOTATION MARK}": "'", "\N{MODIFIER LETTER APOSTROPHE}": "'"})


def normalisation(name: str) -> Callable[[str], str]:
    """The function from a text to the text that is scored. Raises UsageError for an unknown name, and for whisper
    where the package whisper-normalizer is missing.
    """
    if name not in NAMES:
        raise choices("--normalise", name, list(NAMES))
    if name == "none":
        return _spaced
    if name == "case":
        return lambda text: _spaced(text.lower())
    return without_punctuation if name == "punctuation" else _whisper()


def _spaced(text: str) -> str:
    return " ".join(text.split())


def without_punctuation(text: str) -> str:
    """Lower case; signs that are neither letter, mark nor number become spaces. Apostrophes within words stay, as do
    points within numbers (3.5); commas within numbers are dropped (1,000).
    """
    words = (_bare(word) for word in text.lower().translate(APOSTROPHES).split())
    return " ".join(part for word in words for part in word.split())


@lru_cache(maxsize=1 << 16)
def _bare(word: str) -> str:
    letters = []
    for place, sign in enumerate(word):
        inside = 0 < place < len(word) - 1
        within_number = inside and word[place - 1].isdigit() and word[place + 1].isdigit()
        if unicodedata.category(sign)[0] in "LMN" or (inside and sign == "'") or (within_number and sign == "."):
            letters.append(sign)
        elif not (within_number and sign == ","):
            letters.append(" ")
    return "".join(letters).strip("' ")


def _whisper() -> Callable[[str], str]:
    require("whisper", "--normalise whisper", "whisper_normalizer")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # about escapes in the package's own source
        warnings.simplefilter("ignore", DeprecationWarning)  # the same before Python 3.12
        from whisper_normalizer.english import EnglishTextNormalizer
    normalizer = EnglishTextNormalizer()
    return lambda text: _spaced(str(normalizer(text)))

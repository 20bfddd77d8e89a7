"""Text as it enters: one form of each character for every text and id, and the forms in which words are scored."""

import re
import unicodedata
import warnings
from collections.abc import Callable
from functools import lru_cache, partial

from asr_ablations.tools.errors import choices, require

NAMES = ("none", "case", "punctuation", "whisper")
MEANING = {
    "none": "words as they are written: case and punctuation count",
    "case": "words without regard to case",
    "punctuation": "words without regard to case and without punctuation, apostrophes within words kept",
    "whisper": "words after Whisper's English normalizer",
}
"""What was scored, by the name of a normalisation."""
Case = Callable[[str, str], str]
"""From a text and its language to the text without capitals: `lower`, or `fold`."""
APOSTROPHES = dict.fromkeys(map(ord, "\N{RIGHT SINGLE QUOTATION MARK}\N{LEFT SINGLE QUOTATION MARK}`´ʼ＇"), "'")
DOTTED_I = str.maketrans({"I": "ı", "İ": "i"})
TURKIC = ("tr", "az")
"""Languages whose I is the capital of ı."""
THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(,\d{3})+(?![\d,])")


def clean(text: str) -> str:
    """Return the text in Unicode's composed form (NFC), with one kind of apostrophe and without invisible characters.

    Zero-width spaces and joiners, soft hyphens, byte order marks and marks of direction (category Cf) are dropped.
    Every text and id enters through this function, so that two spellings that look alike are equal.
    """
    if text.isascii():
        return text.translate(APOSTROPHES) if "`" in text else text
    visible = "".join(sign for sign in text.translate(APOSTROPHES) if unicodedata.category(sign) != "Cf")
    return unicodedata.normalize("NFC", visible)


def lower(text: str, language: str = "") -> str:
    """Return the text in lower case. A dotted capital I becomes a plain i; in Turkish and Azeri I becomes ı."""
    if language in TURKIC:
        text = text.translate(DOTTED_I)
    return text.lower().replace("i\N{COMBINING DOT ABOVE}", "i")


def normalisation(
    name: str, language: str = "", key: str = "--normalise", small: Case | None = None
) -> Callable[[str], str]:
    """Return the function from a text to the text that is scored.

    name: one of NAMES; language: of the texts, which decides the lower case of I; key: the option, for errors; small:
    what makes capitals small, by default `fold`. Raises UsageError for an unknown name, and for whisper if the package
    whisper-normalizer is missing.
    """
    small = small or fold
    if name not in NAMES:
        raise choices(key, name, list(NAMES))
    if name == "none":
        return lambda text: join_words(clean(text))
    if name == "case":
        return lambda text: join_words(small(clean(text), language))
    return partial(without_punctuation, language=language, small=small) if name == "punctuation" else _whisper(key)


def join_words(text: str) -> str:
    """Return the words with single spaces between them and none at the ends."""
    return " ".join(text.split())


def fold(text: str, language: str = "") -> str:
    """Return the text without regard to case: in lower case, ß as ss, each sigma as σ."""
    return unicodedata.normalize("NFC", lower(text, language).casefold())


def without_punctuation(text: str, language: str = "", small: Case = fold) -> str:
    """Make capitals small, and replace signs that are neither letter, mark nor number by spaces.

    Apostrophes and middle dots within words stay, and points and commas within numbers (3.5; 3,5); commas between
    thousands are dropped (1,000).
    """
    words = (_bare(word) for word in small(clean(text), language).split())
    return " ".join(part for word in words for part in word.split())


@lru_cache(maxsize=1 << 16)
def _bare(word: str) -> str:
    word = THOUSANDS.sub(lambda number: number[0].replace(",", ""), word)
    letters = []
    for place, sign in enumerate(word):
        inside = 0 < place < len(word) - 1
        within_number = inside and word[place - 1].isdigit() and word[place + 1].isdigit()
        keeps = (inside and sign in "'·") or (within_number and sign in ".,")
        letters.append(sign if keeps or unicodedata.category(sign)[0] in "LMN" else " ")
    return "".join(letters).strip("' ")


def _whisper(key: str) -> Callable[[str], str]:
    require("whisper", f"{key} whisper", "whisper_normalizer")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # about escapes in the package's own source
        warnings.simplefilter("ignore", DeprecationWarning)  # the same before Python 3.12
        from whisper_normalizer.english import EnglishTextNormalizer
    normalizer = EnglishTextNormalizer()
    return lambda text: join_words(str(normalizer(clean(text))))

"""Text normalisation: unify characters when texts are read, and normalise words before they are scored."""

import os
import re
import shlex
import unicodedata
import warnings
from collections.abc import Callable
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path

from asr_verdicts.errors import UsageError, choices

NAMES = ("none", "case", "punctuation", "whisper")
MEANING = {
    "none": "words as written, including case and punctuation",
    "case": "words, ignoring case",
    "punctuation": "words, ignoring case and all punctuation except apostrophes within words",
    "whisper": "words after Whisper's English normalizer",
}  # description of the scored words in reports, for each normalisation
Case = Callable[[str, str], str]  # converts (text, language) to the text in lower case: `lower` or `fold`
APOSTROPHES = dict.fromkeys(map(ord, "\u2019\u2018\u201b\u2032\u02bb\u02bc\u05f3\uff07`´"), "'")
INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)  # Unicode's Default_Ignorable_Code_Point, such as joiners, direction marks, soft hyphens and byte order marks
DOTTED_I = str.maketrans({"I": "ı", "İ": "i"})
TURKIC = ("tr", "az")  # languages in which I is the capital letter of ı
THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(,\d{2,3})*,\d{3}(?!,?\d)")
# first bytes of compressed files, and of text files with an encoding other than UTF-8
NO_TEXT = {
    b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"PK\x03": "zip", b"\xfd7z": "xz",
    b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16",
}  # fmt: skip


def decode(content: bytes, path: Path, number: int = 1) -> str:
    """Decode the bytes of a file from line `number` on, and remove the byte order mark.

    Raises UsageError if the bytes are not UTF-8. The message names the file and, if possible, a command to convert it.
    """
    conversion = f"-t UTF-8 {shlex.quote(path.name)} converts it"
    if number == 1:
        for start, name in NO_TEXT.items():
            if content.startswith(start):
                problem = f"in {name}, not UTF-8; iconv -f {name} {conversion}"
                raise UsageError(
                    f"{path}: it is {problem if 'UTF' in name else f'compressed by {name}; expected text'}"
                )
        content = content.removeprefix(b"\xef\xbb\xbf")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        place = f"{path}:{number + before.count(10)}: byte {error.start - before.rfind(10)} is not UTF-8"
        unknown = "its encoding is not known (CP1250 and LATIN1 are common)"
        raise UsageError(f"{place}; {unknown}; iconv -f ENCODING {conversion}") from error
    if "\0" in text:
        line = number + text.count("\n", 0, text.index("\0"))
        raise UsageError(f"{path}:{line}: it contains NUL, like UTF-16; expected text in UTF-8")
    return text


def clean(text: str) -> str:
    """Return the text in composed Unicode (NFC), with one kind of apostrophe and without invisible characters.

    This function is applied to all texts and ids that are read, to make strings equal if they look alike.
    """
    if text.isascii():
        return text.translate(APOSTROPHES) if "`" in text else text
    return unicodedata.normalize("NFC", INVISIBLE.sub("", text)).translate(APOSTROPHES)


def spelled_on_disk(path: Path) -> Path:
    """Return the path in the Unicode form (NFC or NFD) that exists on the disk. macOS decomposes file names (NFD).

    If the path exists in neither form, it is returned unchanged.
    """
    if str(path).isascii() or os.path.exists(path):
        return path
    folder = spelled_on_disk(path.parent)
    spellings = (folder / unicodedata.normalize(form, path.name) for form in ("NFC", "NFD"))
    return next((spelling for spelling in spellings if os.path.exists(spelling)), path)


def lower(text: str, language: str = "") -> str:
    """Convert a text to lower case. The dotted capital İ becomes i. In Turkish and Azerbaijani, I becomes ı."""
    if language.lower().replace("_", "-").partition("-")[0] in TURKIC:
        text = text.translate(DOTTED_I)
    return text.lower().replace("i\N{COMBINING DOT ABOVE}", "i")


def normalisation(
    name: str, language: str = "", key: str = "--normalise", small: Case | None = None
) -> Callable[[str], str]:
    """Return the function that normalises a text before scoring.

    - name: the normalisation, one of NAMES
    - language: language code of the texts, which determines the lower case of I
    - key: name of the option in error messages
    - small: function that converts a text to lower case, by default `fold`

    Raises UsageError for an unknown name, or if whisper is chosen and the package whisper-normalizer is not installed.
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
    """Strip a text, and replace white space between words with single spaces."""
    return " ".join(text.split())


def fold(text: str, language: str = "") -> str:
    """Fold the case of a text: convert it to lower case, ß to ss, and each sigma to σ."""
    return unicodedata.normalize("NFC", lower(text, language).casefold())


def without_punctuation(text: str, language: str = "", small: Case = fold) -> str:
    """Convert a text to lower case, and replace all characters except letters, marks and numbers with spaces.

    Apostrophes and middle dots within words are kept, and so are points and commas within numbers (3.5; 3,5). Thousands
    separators are removed (1,000).
    """
    return join_words(" ".join(map(_bare, small(clean(text), language).split())))


@lru_cache(maxsize=1 << 16)
def _bare(word: str) -> str:
    """Replace the punctuation in a word with spaces, as `without_punctuation` describes."""
    word = THOUSANDS.sub(lambda number: number[0].replace(",", ""), word)
    spoken = [unicodedata.category(sign)[0] in "LMN" for sign in word]
    letters = []
    for place, sign in enumerate(word):
        inside = 0 < place < len(word) - 1 and spoken[place - 1] and spoken[place + 1]
        within_number = inside and word[place - 1].isdigit() and word[place + 1].isdigit()
        keeps = (inside and sign in "'·") or (within_number and sign in ".,٫")
        letters.append(sign if spoken[place] or keeps else " ")
    return "".join(letters)


def _whisper(key: str) -> Callable[[str], str]:
    if find_spec("whisper_normalizer") is None:
        raise UsageError(f"{key} whisper: needs whisper_normalizer; install it with pip install whisper-normalizer")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # the package's source contains invalid escapes
        warnings.simplefilter("ignore", DeprecationWarning)  # the category of that warning before Python 3.12
        from whisper_normalizer.english import EnglishTextNormalizer
    normalizer = EnglishTextNormalizer()
    return lambda text: join_words(str(normalizer(clean(text))))

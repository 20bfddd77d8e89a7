"""The languages of the built-in corpus. Each has a module <code>.py with a function `language` that returns it.

The words of a language are usually in <code>.yaml. Its alphabet is in conf/alphabet/<code>.yaml.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path

import yaml

from asr_verdicts.errors import choices

FOLDER = Path(__file__).parent
Productions = list[tuple[float, list[str]]]


@dataclass(frozen=True)
class Language:
    """The grammar, the words and the voices of a language.

    - grammar: weighted productions of each symbol (in capitals); they consist of symbols, categories and words
    - categories: words of each category (in capitals), most frequent first
    - correct: function that corrects the words of a finished sentence, for example from "a apple" to "an apple"
    - accents: espeak-ng's voice names for each kind of speaker ("clean" and "other")
    """

    grammar: Mapping[str, Productions]
    categories: Mapping[str, Sequence[str]]
    correct: Callable[[list[str]], list[str]]
    accents: Mapping[str, Sequence[str]]


def parse_grammar(text: str) -> dict[str, Productions]:
    """Parse a grammar: lines with a symbol, each followed by indented lines `weight production | weight production`."""
    grammar: dict[str, Productions] = {}
    symbol = ""
    for line in filter(str.strip, text.splitlines()):
        if not line.startswith(" "):
            symbol = line.strip()
            continue
        for alternative in line.split("|"):
            weight, *production = alternative.split()
            grammar.setdefault(symbol, []).append((float(weight), production))
    return grammar


def words(text: str) -> list[str]:
    """Return the distinct words of a text, in order of appearance."""
    return list(dict.fromkeys(text.split()))


def load_words(code: str) -> dict[str, dict[str, str]]:
    """Return the sections of <code>.yaml, each of which maps names to strings."""
    content: dict[str, dict[str, str]] = yaml.safe_load((FOLDER / f"{code}.yaml").read_text(encoding="utf-8"))
    return content


def codes() -> list[str]:
    """Return the codes of all languages, in alphabetical order."""
    return sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")


@lru_cache
def load_language(code: str) -> Language:
    """Import the module of one language, and return the language. Raises UsageError if there is no such module."""
    if code not in codes():
        raise choices("data.language", code, codes())
    language: Language = import_module(f"{__name__}.{code}").language()
    return language

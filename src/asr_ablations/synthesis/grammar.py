"""A language: its grammar, its words and its voices."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Productions = list[tuple[float, list[str]]]


@dataclass(frozen=True)
class Language:
    """A grammar, its words and its voices.

    grammar: symbol in capitals → (weight, production); a production is symbols, categories and words.
    categories: category in capitals → its words, the most frequent first.
    correct: applied last to the words of a sentence (a → an).
    accents: kind of speaker (clean, other) → espeak-ng's names of its voices.
    """

    grammar: Mapping[str, Productions]
    categories: Mapping[str, Sequence[str]]
    correct: Callable[[list[str]], list[str]]
    accents: Mapping[str, Sequence[str]]


def parse_grammar(text: str) -> dict[str, Productions]:
    """Parse a grammar: a line with a symbol, then indented lines of `weight production | weight production`."""
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
    """Return the distinct words of a text, in its order."""
    return list(dict.fromkeys(text.split()))

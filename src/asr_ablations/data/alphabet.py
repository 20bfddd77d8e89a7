"""Characters and their indices; 0 is the CTC blank."""

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from asr_ablations.tools.errors import UsageError, choices


@dataclass(frozen=True)
class Alphabet:
    """The characters of a language, in the order of their outputs 1, 2, …

    separation: one of them, or "" for none, that is no letter: it stands between double letters, as in co_ol, and is
    dropped when labels become text (papers/004 §4.4.3).
    """

    characters: str
    separation: str = ""

    def __post_init__(self) -> None:
        if len(set(self.characters)) != len(self.characters) or not self.characters:
            raise UsageError(f"alphabet {self.characters!r}: expected characters, none of them twice")

    @staticmethod
    def with_separation(letters: str, separation: str | None) -> "Alphabet":
        """Letters, and behind them the separation character where there is one. Raises UsageError for one that is no
        character or a letter.
        """
        if separation is None:
            return Alphabet(letters)
        if not isinstance(separation, str) or len(separation) != 1 or separation in letters:
            raise choices("alphabet.separation", separation, f"one character that is none of {letters!r}, or null")
        return Alphabet(letters + separation, separation)

    @property
    def letters(self) -> str:
        """The characters that a text may hold."""
        return self.characters.replace(self.separation, "")

    @property
    def outputs(self) -> int:
        """V: the characters and the blank."""
        return len(self.characters) + 1

    @cached_property
    def _index(self) -> dict[str, int]:
        return {character: i for i, character in enumerate(self.characters, start=1)}

    def encode(self, text: str) -> list[int]:
        """Indices of the characters. Raises KeyError for one outside the alphabet."""
        labels = list(map(self._index.__getitem__, text))
        if not self.separation:
            return labels
        between = self._index[self.separation]
        parted = zip(labels, [0, *labels], strict=False)
        return [label for now, before in parted for label in ([between, now] if now == before else [now])]

    def decode(self, indices: Iterable[int]) -> str:
        """Text of indices 1…V-1."""
        return "".join(self.characters[i - 1] for i in indices).replace(self.separation, "")

    def foreign(self, text: str) -> list[str]:
        """The characters of a text that the alphabet has not, each once."""
        return sorted(set(text) - set(self.letters))


def normalise(text: str) -> str:
    """Lower case, one space between words, none at the ends; the typographic apostrophe as the plain one."""
    return " ".join(text.replace("’", "'").lower().split())


def shortest_path(labels: list[int]) -> int:
    """Frames that CTC needs at the least: one a label, and a blank between two equal neighbours."""
    return len(labels) + sum(map(operator.eq, labels, labels[1:]))

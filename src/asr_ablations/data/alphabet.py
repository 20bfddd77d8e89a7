"""Characters and their indices; 0 is the CTC blank."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from asr_ablations.data.utterance import Utterance
from asr_ablations.errors import UsageError


@dataclass(frozen=True)
class Alphabet:
    """The characters of a language, in the order of their outputs 1, 2, …"""

    characters: str

    def __post_init__(self) -> None:
        if len(set(self.characters)) != len(self.characters) or not self.characters:
            raise UsageError(f"alphabet {self.characters!r}: expected characters, none of them twice")

    @property
    def outputs(self) -> int:
        """V: the characters and the blank."""
        return len(self.characters) + 1

    def encode(self, text: str) -> list[int]:
        """Indices of the characters. Raises KeyError for one outside the alphabet."""
        index = {character: i for i, character in enumerate(self.characters, start=1)}
        return [index[character] for character in text]

    def decode(self, indices: Iterable[int]) -> str:
        """Text of indices 1…V-1."""
        return "".join(self.characters[i - 1] for i in indices)

    def check(self, utterances: Iterable[Utterance]) -> None:
        """Raises UsageError that names the foreign characters and the first utterance that has one."""
        known, foreign, first = set(self.characters), set(), None
        for utterance in utterances:
            odd = set(utterance.text) - known
            if odd and first is None:
                first = utterance
            foreign |= odd
        if first is not None:
            listed = " ".join(repr(c) for c in sorted(foreign))
            raise UsageError(
                f"characters outside the alphabet: {listed}; first in utterance {first.id} ({first.audio}): "
                f"{first.text!r}"
            )


def normalise(text: str) -> str:
    """Lower case, one space between words, none at the ends; the typographic apostrophe as the plain one."""
    return " ".join(text.replace("’", "'").lower().split())


def shortest_path(labels: list[int]) -> int:
    """Frames that CTC needs at the least: one a label, and a blank between two equal neighbours."""
    return len(labels) + sum(a == b for a, b in itertools.pairwise(labels))

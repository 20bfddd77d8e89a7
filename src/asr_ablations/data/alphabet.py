"""Characters and their indices; index 0 is the CTC blank."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from asr_verdicts.errors import UsageError, choices


@dataclass(frozen=True)
class Alphabet:
    """The characters of a language, in the order of the model's outputs 1, 2, …

    separation: one of the characters, or "" for none. It is not a letter: it separates double letters, as in co_ol, and
    is dropped when labels become text (Baunsgaard2020 §4.4.3). Raises UsageError if `characters` is empty or has
    repetitions.
    """

    characters: str
    separation: str = ""

    def __post_init__(self) -> None:
        if len(set(self.characters)) != len(self.characters) or not self.characters:
            raise UsageError(f"alphabet.characters={self.characters!r}: expected different characters, one or more")

    @staticmethod
    def with_separation(letters: str, separation: str | None) -> "Alphabet":
        """Return the letters followed by the separation character, if any.

        Raises UsageError if the separation is a letter, or not exactly one character.
        """
        if separation is None:
            return Alphabet(letters)
        if not isinstance(separation, str) or len(separation) != 1 or separation in letters:
            raise choices("alphabet.separation", separation, f"one character that is not among {letters!r}, or null")
        return Alphabet(letters + separation, separation)

    @property
    def letters(self) -> str:
        """The characters that may occur in texts: all except the separation."""
        return self.characters.replace(self.separation, "")

    @property
    def outputs(self) -> int:
        """V, the number of model outputs: the characters and the blank."""
        return len(self.characters) + 1

    @cached_property
    def _index(self) -> dict[str, int]:
        return {character: i for i, character in enumerate(self.characters, start=1)}

    def encode(self, text: str) -> list[int]:
        """Return the indices of the characters. Raises KeyError for characters outside the alphabet."""
        labels = list(map(self._index.__getitem__, text))
        if not self.separation:
            return labels
        separator = self._index[self.separation]
        pairs = zip(labels, [0, *labels], strict=False)
        return [index for label, previous in pairs for index in ([separator, label] if label == previous else [label])]

    @cached_property
    def _indices(self) -> np.ndarray:
        """The index of each code point up to one past the highest in the alphabet; -1 for foreign ones."""
        indices = np.full(max(map(ord, self.characters)) + 2, -1, dtype=np.int64)
        indices[list(map(ord, self.characters))] = np.arange(1, self.outputs)
        return indices

    def encode_all(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the concatenated indices of all texts, and the number of indices of each text (N,). Characters outside
        the alphabet have the index -1.
        """
        points = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        labels = self._indices[np.minimum(points, len(self._indices) - 1)]
        counts = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        if not self.separation:
            return labels, counts
        places, owners = _find_repeats(labels, counts)
        separated = np.insert(labels, places, self._index[self.separation])
        return separated, counts + np.bincount(owners, minlength=len(texts))

    def decode(self, indices: Iterable[int]) -> str:
        """Return the text of indices from 1 to V - 1."""
        return "".join(self.characters[i - 1] for i in indices).replace(self.separation, "")

    def foreign(self, text: str) -> list[str]:
        """Return the characters of a text that are not letters of the alphabet, sorted, without repetitions."""
        return sorted(set(text) - set(self.letters))


def shortest_path(labels: Sequence[int] | np.ndarray) -> int:
    """Return the number of frames that CTC needs: one per label, and a blank between equal neighbours."""
    return int(shortest_paths(np.asarray(labels), np.array([len(labels)]))[0])


def shortest_paths(labels: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the number of frames (N,) that CTC needs for texts in the form of Alphabet.encode_all."""
    return counts + np.bincount(_find_repeats(labels, counts)[1], minlength=len(counts))


def _find_repeats(labels: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of labels that equal their left neighbour in the same text, and the texts' indices."""
    owners = np.repeat(np.arange(len(counts)), counts)
    places = np.flatnonzero((labels[1:] == labels[:-1]) & (owners[1:] == owners[:-1])) + 1
    return places, owners[places]

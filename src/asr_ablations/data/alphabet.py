"""Alphabets: characters and their label indices. Index 0 is the CTC blank."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from asr_verdicts.errors import UsageError, choices


@dataclass(frozen=True)
class Alphabet:
    """The characters of a language, in the order of the model's outputs 1, 2, …

    separation: character that separates double letters, as in co_ol, and is dropped when labels become text
    (Baunsgaard2020 §4.4.3); "" for none. Raises UsageError if `characters` is empty or has repetitions.
    """

    characters: str
    separation: str = ""

    def __post_init__(self) -> None:
        if len(set(self.characters)) != len(self.characters) or not self.characters:
            raise UsageError(f"alphabet.characters={self.characters!r}: expected different characters, one or more")

    @staticmethod
    def with_separation(letters: str, separation: str | None) -> "Alphabet":
        """Return the letters followed by a separation, if any. Raises UsageError if it is not one other character."""
        if separation is None:
            return Alphabet(letters)
        if not isinstance(separation, str) or len(separation) != 1 or separation in letters:
            raise choices("alphabet.separation", separation, f"one character that is not among {letters!r}, or null")
        return Alphabet(letters + separation, separation)

    @property
    def letters(self) -> str:
        """Characters that may occur in texts: all except the separation."""
        return self.characters.replace(self.separation, "")

    @property
    def outputs(self) -> int:
        """Number V of model outputs: one for each character, and one for the blank."""
        return len(self.characters) + 1

    def encode(self, text: str) -> list[int]:
        """Return the label indices of a text. Raises KeyError for characters outside the alphabet."""
        labels, _ = self.encode_all([text])
        if (labels < 0).any():
            raise KeyError(text)
        return labels.tolist()

    @cached_property
    def _indices(self) -> np.ndarray:
        """Label index by code point, up to one past the highest in the alphabet. -1 for characters outside it."""
        indices = np.full(max(map(ord, self.characters)) + 2, -1, dtype=np.int64)
        indices[list(map(ord, self.characters))] = np.arange(1, self.outputs)
        return indices

    def encode_all(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the joined label indices of all texts (-1 for foreign characters), and their number per text (N,)."""
        points = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        labels = self._indices[np.minimum(points, len(self._indices) - 1)]
        counts = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        if not self.separation:
            return labels, counts
        places, owners = _find_repeats(labels, counts)
        separated = np.insert(labels, places, self._indices[ord(self.separation)])
        return separated, counts + np.bincount(owners, minlength=len(texts))

    def decode(self, indices: Iterable[int]) -> str:
        """Return the text of label indices from 1 to V - 1."""
        return "".join(self.characters[i - 1] for i in indices).replace(self.separation, "")

    def foreign(self, text: str) -> list[str]:
        """Return the distinct characters of a text that are no letters of the alphabet, sorted."""
        return sorted(set(text) - set(self.letters))


def shortest_path(labels: Sequence[int] | np.ndarray) -> int:
    """Return the number of frames that CTC needs: one for each label, and a blank between equal neighbours."""
    return int(shortest_paths(np.asarray(labels), np.array([len(labels)]))[0])


def shortest_paths(labels: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the number of frames (N,) that CTC needs for each text, given the results of Alphabet.encode_all."""
    return counts + np.bincount(_find_repeats(labels, counts)[1], minlength=len(counts))


def _find_repeats(labels: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of labels that equal the previous label of the same text, and the indices of these texts."""
    owners = np.repeat(np.arange(len(counts)), counts)
    places = np.flatnonzero((labels[1:] == labels[:-1]) & (owners[1:] == owners[:-1])) + 1
    return places, owners[places]

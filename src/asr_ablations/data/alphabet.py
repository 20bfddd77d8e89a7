"""Alphabets: the output units of a model, such as letters, and their indices. Index 0 is the CTC blank."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from asr_verdicts.errors import UsageError, choices


class Alphabet(ABC):
    """The output units that make up a model's transcripts: letters or subwords."""

    separation = ""
    """The unit that separates double letters; "" if there is none."""

    @property
    @abstractmethod
    def symbols(self) -> tuple[str, ...]:
        """The units in printable form, in the order of the model's outputs 1, 2, …"""

    @property
    @abstractmethod
    def letters(self) -> str:
        """The characters that transcripts may contain."""

    @property
    @abstractmethod
    def key(self) -> str:
        """A string that differs between any two alphabets with different labels."""

    def encode(self, text: str) -> list[int]:
        """Return the label indices of a text. Raises KeyError for characters outside the alphabet."""
        labels, _ = self.encode_all([text])
        if (labels < 0).any():
            raise KeyError(text)
        return cast(list[int], labels.tolist())

    @abstractmethod
    def encode_all(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the concatenated label indices of N texts, and the number of labels of each text, (N,).

        Characters outside the alphabet get the index -1.
        """

    @abstractmethod
    def decode(self, indices: Iterable[int]) -> str:
        """Return the text that label indices spell. Indices range from 1 to the number of units."""

    @abstractmethod
    def words(self, text: str) -> list[tuple[str, range]]:
        """Return each word of a text with the positions of its labels in `encode(text)`."""

    @abstractmethod
    def state(self) -> dict[str, str]:
        """Return the data to store in a checkpoint, from which the factory's `restore` recreates the alphabet."""

    def check_state(self, state: object) -> None:
        """Raise ValueError if the state in a checkpoint belongs to a different alphabet."""
        if state != (ours := self.state()):
            theirs = state if not isinstance(state, dict) else " ".join(map(str, state.values()))
            shown = f"{str(theirs)[:60]!r}, but this run uses {' '.join(ours.values())[:60]!r}"
            raise ValueError(f"the checkpoint was trained with the alphabet {shown}")

    @property
    def outputs(self) -> int:
        """Number of model outputs (V): the units plus the blank."""
        return len(self.symbols) + 1

    @property
    def searched(self) -> tuple[str, ...]:
        """The units that decoded texts may contain: all units except `separation`."""
        return tuple(symbol for symbol in self.symbols if symbol != self.separation)

    @property
    def spells(self) -> bool:
        """Return whether every unit except `separation` is a letter."""
        return self.searched == tuple(self.letters)

    def foreign(self, text: str) -> list[str]:
        """Return the sorted, distinct characters of a text that are not in the alphabet."""
        return sorted(set(text) - set(self.letters))


@dataclass(frozen=True)
class Letters(Alphabet):
    """An alphabet of single characters.

    separation: character that separates double letters, as in co_ol, and is removed from decoded texts (Baunsgaard2020
    §4.4.3); "" disables it. Raises UsageError if `characters` is empty or contains a character twice.
    """

    characters: str
    separation: str = ""

    def __post_init__(self) -> None:
        if len(set(self.characters)) != len(self.characters) or not self.characters:
            raise UsageError(f"alphabet.characters={self.characters!r}: expected one or more different characters")

    @staticmethod
    def with_separation(letters: str, separation: str | None) -> "Letters":
        """Make an alphabet. Raises UsageError unless `separation` is None or one character that is not in `letters`."""
        if separation is None:
            return Letters(letters)
        if not isinstance(separation, str) or len(separation) != 1 or separation in letters:
            raise choices("alphabet.separation", separation, f"one character that is not among {letters!r}, or null")
        return Letters(letters + separation, separation)

    @staticmethod
    def restore(state: Mapping[str, object]) -> "Letters":
        """Return the alphabet whose `state()` was stored in a checkpoint."""
        return Letters(str(state["characters"]), str(state["separation"]))

    def state(self) -> dict[str, str]:
        return {"characters": self.characters, "separation": self.separation}

    @property
    def symbols(self) -> tuple[str, ...]:
        return tuple(self.characters)

    @property
    def key(self) -> str:
        return self.characters

    @property
    def letters(self) -> str:
        """The characters that transcripts may contain: all except `separation`."""
        return self.characters.replace(self.separation, "")

    @cached_property
    def _indices(self) -> np.ndarray:
        """Label index of each code point, or -1 outside the alphabet. Code points past the end use the last entry."""
        indices = np.full(max(map(ord, self.characters)) + 2, -1, dtype=np.int64)
        indices[list(map(ord, self.characters))] = np.arange(1, self.outputs)
        return indices

    def encode_all(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        points = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        labels = self._indices[np.minimum(points, len(self._indices) - 1)]
        counts = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        if not self.separation:
            return labels, counts
        places, owners = _find_repeats(labels, counts)
        separated = np.insert(labels, places, self._indices[ord(self.separation)])
        return separated, counts + np.bincount(owners, minlength=len(texts))

    def decode(self, indices: Iterable[int]) -> str:
        return "".join(self.characters[i - 1] for i in indices).replace(self.separation, "")

    def words(self, text: str) -> list[tuple[str, range]]:
        words, start = [], 0
        for word in text.split(" "):
            words.append((word, range(start, start + len(self.encode(word)))))
            start = words[-1][1].stop + 1  # past the space
        return words


def shortest_path(labels: Sequence[int] | np.ndarray) -> int:
    """Return the number of frames that CTC needs: one per label, plus one blank between any two equal neighbours."""
    return int(shortest_paths(np.asarray(labels), np.array([len(labels)]))[0])


def shortest_paths(labels: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the number of frames that CTC needs for each of N texts, (N,), from the results of Alphabet.encode_all."""
    return counts + np.bincount(_find_repeats(labels, counts)[1], minlength=len(counts))


def _find_repeats(labels: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find labels that repeat the previous label of the same text. Return their positions and the texts' indices."""
    owners = np.repeat(np.arange(len(counts)), counts)
    places = np.flatnonzero((labels[1:] == labels[:-1]) & (owners[1:] == owners[:-1])) + 1
    return places, owners[places]

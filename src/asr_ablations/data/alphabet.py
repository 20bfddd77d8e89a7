"""Output units of a model and their indices; index 0 is the CTC blank."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from asr_verdicts.errors import UsageError, choices


class Alphabet(ABC):
    """The units that a model writes texts with: letters, or pieces of words."""

    separation = ""
    """The unit that separates double letters; "" if there is none."""

    @property
    @abstractmethod
    def symbols(self) -> tuple[str, ...]:
        """The units as they are shown, in the order of the model's outputs 1, 2, …"""

    @property
    @abstractmethod
    def letters(self) -> str:
        """The characters that may occur in texts."""

    @property
    @abstractmethod
    def key(self) -> str:
        """A text that differs between any two alphabets whose labels differ."""

    def encode(self, text: str) -> list[int]:
        """Return the labels of a text. Raises KeyError for characters outside the alphabet."""
        labels, _ = self.encode_all([text])
        if (labels < 0).any():
            raise KeyError(text)
        return cast(list[int], labels.tolist())

    @abstractmethod
    def encode_all(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the concatenated indices of all texts, and the number of indices of each text (N,). Characters outside
        the alphabet have the index -1.
        """

    @abstractmethod
    def decode(self, indices: Iterable[int]) -> str:
        """Return the text of indices from 1 to V - 1."""

    @abstractmethod
    def words(self, text: str) -> list[tuple[str, range]]:
        """Return each word of a text with the positions of its labels in `encode(text)`."""

    @abstractmethod
    def state(self) -> dict[str, str]:
        """Return what a checkpoint keeps of the alphabet, for the factory's `restore`."""

    def check_state(self, state: object) -> None:
        """Raise ValueError for the state of another alphabet."""
        if state != (ours := self.state()):
            theirs = state if not isinstance(state, dict) else " ".join(map(str, state.values()))
            shown = f"{str(theirs)[:60]!r}, this run uses {' '.join(ours.values())[:60]!r}"
            raise ValueError(f"the checkpoint was trained with the alphabet {shown}")

    @property
    def outputs(self) -> int:
        """V, the number of model outputs: the units and the blank."""
        return len(self.symbols) + 1

    @property
    def searched(self) -> tuple[str, ...]:
        """The units that texts are made of: all except the separation."""
        return tuple(symbol for symbol in self.symbols if symbol != self.separation)

    @property
    def spells(self) -> bool:
        """Return whether every unit is a letter."""
        return self.searched == tuple(self.letters)

    def foreign(self, text: str) -> list[str]:
        """Return the characters of a text that are not letters of the alphabet, sorted, without repetitions."""
        return sorted(set(text) - set(self.letters))


@dataclass(frozen=True)
class Letters(Alphabet):
    """The characters of a language.

    separation: character that separates double letters, as in co_ol, and is dropped when labels become text
    (Baunsgaard2020 §4.4.3); "" for none. Raises UsageError if `characters` is empty or has repetitions.
    """

    characters: str
    separation: str = ""

    def __post_init__(self) -> None:
        if len(set(self.characters)) != len(self.characters) or not self.characters:
            raise UsageError(f"alphabet.characters={self.characters!r}: expected different characters, one or more")

    @staticmethod
    def with_separation(letters: str, separation: str | None) -> "Letters":
        """Return the letters followed by a separation, if any. Raises UsageError if it is not one other character."""
        if separation is None:
            return Letters(letters)
        if not isinstance(separation, str) or len(separation) != 1 or separation in letters:
            raise choices("alphabet.separation", separation, f"one character that is not among {letters!r}, or null")
        return Letters(letters + separation, separation)

    @staticmethod
    def restore(state: Mapping[str, object]) -> "Letters":
        """Return the alphabet that a checkpoint keeps as `state()`."""
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
        """Characters that may occur in texts: all except the separation."""
        return self.characters.replace(self.separation, "")

    @cached_property
    def _indices(self) -> np.ndarray:
        """Label index by code point, -1 for other characters. The last entry serves all higher code points."""
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

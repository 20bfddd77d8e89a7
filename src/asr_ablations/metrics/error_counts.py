"""Substitutions, deletions and insertions of one utterance, and rates over many."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rapidfuzz.distance import Levenshtein


@dataclass(frozen=True)
class Errors:
    """Counts over a reference of `total` words or characters."""

    total: int
    substitutions: int
    deletions: int
    insertions: int

    def __add__(self, other: "Errors") -> "Errors":
        return Errors(
            self.total + other.total,
            self.substitutions + other.substitutions,
            self.deletions + other.deletions,
            self.insertions + other.insertions,
        )

    @property
    def count(self) -> int:
        return self.substitutions + self.deletions + self.insertions

    @property
    def rate(self) -> float:
        """(S + D + I) / N (papers/003 §1.4); an empty reference counts as one word, so that insertions still show."""
        return self.count / max(1, self.total)


def count_errors(reference: Sequence[Any], hypothesis: Sequence[Any]) -> Errors:
    """Errors of the alignment with the fewest of them, and of several such the one with the most words right.

    That splits the errors as NIST's sclite does, whose substitutions cost 4 and others 3. One distance finds both: each
    error costs `unit` and a substitution 1 more; insertions less deletions are the difference of the lengths.
    """
    unit = min(len(reference), len(hypothesis)) + 1
    errors, substitutions = divmod(Levenshtein.distance(reference, hypothesis, weights=(unit, unit, unit + 1)), unit)
    deletions = (errors - substitutions + len(reference) - len(hypothesis)) // 2
    return Errors(len(reference), substitutions, deletions, errors - substitutions - deletions)


def word_errors(reference: str, hypothesis: str) -> Errors:
    """Errors in words."""
    return count_errors(reference.split(), hypothesis.split())


def character_errors(reference: str, hypothesis: str) -> Errors:
    """Errors in characters, spaces among them."""
    return count_errors(reference, hypothesis)

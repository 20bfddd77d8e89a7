"""The alphabet that is written down."""

from typing import Any

from asr_ablations.data.alphabet import Alphabet


def spelled(corpus: Any, *, characters: str, separation: str | None) -> Alphabet:
    """These characters, whatever the corpus holds."""
    return Alphabet.with_separation(characters, separation)

"""An alphabet that the config spells out."""

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.corpus import Corpus


def spelled(corpus: Corpus, *, characters: str, separation: str | None) -> Alphabet:
    """The given characters, whatever the corpus holds. Raises UsageError for a separation that is one of them."""
    return Alphabet.with_separation(characters, separation)

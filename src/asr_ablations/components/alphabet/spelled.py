"""An alphabet that the config spells out."""

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.corpus import Corpus
from asr_verdicts.errors import choices
from asr_verdicts.text import clean


def spelled(corpus: Corpus, *, characters: str, separation: str | None) -> Alphabet:
    """Build an alphabet of the given characters. Raises UsageError if they are not a text or contain the separation."""
    if not isinstance(characters, str):
        raise choices("alphabet.characters", characters, "a text of all characters, such as abc")
    return Alphabet.with_separation(clean(characters), separation)

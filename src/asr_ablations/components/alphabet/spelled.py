"""An alphabet whose characters are listed in the config."""

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.corpus import Corpus
from asr_verdicts.errors import choices
from asr_verdicts.text import clean


def spelled(corpus: Corpus, *, characters: str, separation: str | None) -> Alphabet:
    """Build an alphabet of the given characters. Raises UsageError for anything but a text without the separation."""
    if not isinstance(characters, str):
        raise choices("alphabet.characters", characters, "a text of all characters, such as abc")
    return Alphabet.with_separation(clean(characters), separation)

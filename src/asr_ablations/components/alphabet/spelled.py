"""An alphabet whose characters are listed in the config."""

from collections.abc import Mapping

from asr_ablations.data.alphabet import Letters
from asr_ablations.data.corpus import Corpus
from asr_verdicts.errors import choices
from asr_verdicts.text import clean


class Spelled:
    """Builds an alphabet of the given characters.

    separation: the character put between double letters, or None. Raises UsageError if the characters are not a text or
    contain the separation.
    """

    def __init__(self, *, characters: str, separation: str | None) -> None:
        if not isinstance(characters, str):
            raise choices("alphabet.characters", characters, "a text of all characters, such as abc")
        self.alphabet = Letters.with_separation(clean(characters), separation)

    def __call__(self, corpus: Corpus) -> Letters:
        return self.alphabet

    def restore(self, state: Mapping[str, object]) -> Letters:
        """Return the config's alphabet; the model's check then refuses a checkpoint with another one."""
        return self.alphabet

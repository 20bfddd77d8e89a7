"""An alphabet whose characters are listed in the config."""

from collections.abc import Mapping

from asr_ablations.data.alphabet import Letters
from asr_ablations.data.corpus import Corpus
from asr_verdicts.errors import choices
from asr_verdicts.text import clean


class Spelled:
    """Builds an alphabet from a string of characters in the config.

    separation: character to insert between two equal letters in a row, or None to insert nothing. Raises UsageError if
    `characters` is not a string, is empty, contains the separation, or contains any character twice.
    """

    def __init__(self, *, characters: str, separation: str | None) -> None:
        if not isinstance(characters, str):
            raise choices("alphabet.characters", characters, "a string of all characters, such as abc")
        self.alphabet = Letters.with_separation(clean(characters), separation)

    def __call__(self, corpus: Corpus) -> Letters:
        return self.alphabet

    def restore(self, state: Mapping[str, object]) -> Letters:
        """Return the config's alphabet instead of `state`. A later check refuses checkpoints with a different one."""
        return self.alphabet

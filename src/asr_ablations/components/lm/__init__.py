"""Sources of n-gram language models. Contract: LanguageModelSource."""

from pathlib import Path
from typing import Protocol, runtime_checkable

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.corpus import Corpus
from asr_ablations.tools.files import Json


@runtime_checkable
class LanguageModelSource(Protocol):
    """lm: writes a language model into a folder."""

    def __call__(self, corpus: Corpus, alphabet: Alphabet, folder: Path) -> Json:
        """Write lm.arpa and words.txt; the record of it: unit, order, estimator, vocabulary, sources. The corpus need
        not be prepared and is left alone where the model does not come from its text. Raises UsageError for text or
        files that are missing or damaged.
        """

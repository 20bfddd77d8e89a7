"""The built-in corpus: sentences spoken by espeak-ng, generated on first use, without account or download."""

from typing import TYPE_CHECKING

from asr_ablations.components.data.librispeech import Folders
from asr_ablations.data.corpus import CorpusOptions
from asr_ablations.tools.errors import UsageError

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Synthetic(Folders):
    """Spoken sentences with a vocabulary of `words` words and `hours` of training audio, generated under `root`.

    The splits train, dev-clean, dev-other, test-clean and test-other share no speaker, and no sentence of a dev or test
    split is in train. The corpus depends on language, words, hours and corpus_seed only.
    """

    def __init__(self, *, hours: float, words: int, corpus_seed: int, **options: "Unpack[CorpusOptions]") -> None:
        super().__init__(**options)
        self.hours, self.words, self.corpus_seed = hours, words, corpus_seed
        self.store = self.root

    def prepare(self) -> None:
        """Generate the corpus where it is missing. Raises UsageError for values out of range, and without a root."""
        from asr_ablations.synthesis.corpus import generate

        if self.store is None:
            raise UsageError("data.root is not set: the folder that the corpus is generated in")
        try:
            self.root = generate(self.store, self.hours, self.words, self.language, self.corpus_seed)
        except ValueError as error:
            raise UsageError(str(error)) from error
        super().prepare()

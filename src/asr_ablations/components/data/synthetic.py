"""The built-in corpus: sentences spoken by espeak-ng, generated on first use, without account or download."""

from pathlib import Path

from asr_ablations.components.data.librispeech import Folders
from asr_ablations.tools.errors import UsageError


class Synthetic(Folders):
    """Spoken sentences of `words` different words; `hours` of training audio; generated under `root`.

    The splits train, dev-clean, dev-other, test-clean, test-other share no speaker, and no sentence of a dev or test
    split stands in train. What is generated depends on language, words, hours and corpus_seed only.
    """

    def __init__(self, *, root: str | Path, hours: float, words: int, corpus_seed: int, **options: object) -> None:
        super().__init__(root=root, **options)  # type: ignore[arg-type]
        self.hours, self.words, self.corpus_seed = hours, words, corpus_seed
        self.store = Path(root).expanduser()

    def prepare(self) -> None:
        """Generate what is not there yet. Raises UsageError for values out of range."""
        from asr_ablations.synthesis.corpus import generate

        try:
            self.root = generate(self.store, self.hours, self.words, self.language, self.corpus_seed)
        except ValueError as error:
            raise UsageError(str(error)) from error
        super().prepare()

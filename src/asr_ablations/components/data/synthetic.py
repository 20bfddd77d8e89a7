"""The built-in corpus: sentences spoken by espeak-ng, generated on first use, without account or download."""

from pathlib import Path
from typing import TYPE_CHECKING

from asr_ablations.components.data.librispeech import Folders
from asr_ablations.data.corpus import CorpusOptions
from asr_ablations.synthesis.request import SPLITS, Request
from asr_ablations.tools.errors import UsageError, choices

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Synthetic(Folders):
    """Spoken sentences with a vocabulary of `words` words and `hours` of training audio, generated under `root`.

    The splits train, dev-clean, dev-other, test-clean and test-other share no speaker, and no sentence of a dev or test
    split is in train. Only the splits that train, validation and test name are generated. The sizes of the dev and test
    splits do not depend on hours; see synthesis.request.Request.
    """

    def __init__(
        self,
        *,
        hours: float,
        validation_speakers: int,
        validation_sentences: int,
        test_speakers: int,
        test_sentences: int,
        words: int,
        corpus_seed: int,
        **options: "Unpack[CorpusOptions]",
    ) -> None:
        super().__init__(**options)
        for role in self.requested:
            for split in getattr(self, role):
                if split not in SPLITS:
                    raise choices(f"data.{role}", split, SPLITS)
        self.request = Request(
            language=self.language,
            words=words,
            seed=corpus_seed,
            hours=hours,
            validation_speakers=validation_speakers,
            validation_sentences=validation_sentences,
            test_speakers=test_speakers,
            test_sentences=test_sentences,
        )

    def folder(self, split: str) -> Path:
        assert self.root is not None
        return self.request.folder(self.root, split)

    def prepare(self) -> None:
        """Generate the splits that are missing. Raises UsageError for values out of range, and without a root."""
        from asr_ablations.synthesis.corpus import generate

        if self.root is None:
            raise UsageError("data.root is not set: the folder that the corpus is generated in")
        try:
            generate(self.root, self.request, self.folders())
        except ValueError as error:
            raise UsageError(str(error)) from error

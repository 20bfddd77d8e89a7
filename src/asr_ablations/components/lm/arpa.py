"""An n-gram model from an existing ARPA file, converted to lower case."""

from pathlib import Path

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.corpus import Corpus
from asr_ablations.language_models.model import install
from asr_verdicts.errors import UsageError


class ArpaFile:
    """Copies an ARPA file, plain or gzipped. Raises UsageError if `file` is not set or does not exist."""

    def __init__(self, *, file: str | None) -> None:
        if not file:
            raise UsageError("lm.file is not set: expected an ARPA file, plain or .gz")
        self.file = Path(file)

    def __call__(self, corpus: Corpus, alphabet: Alphabet, folder: Path) -> dict[str, object]:
        """Write a lower-case copy of the file and its word list to `folder`, and return the model's record."""
        if not self.file.is_file():
            raise UsageError(f"lm.file={self.file}: there is no such file")
        return {**install(self.file, folder, corpus.language), "sources": [{"source": str(self.file)}]}

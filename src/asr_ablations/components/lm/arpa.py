"""An n-gram model from elsewhere, as an ARPA file: a copy in lower case, as transcripts are here."""

from pathlib import Path

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.corpus import Corpus
from asr_ablations.language_models.model import install
from asr_verdicts.errors import UsageError


class ArpaFile:
    """Installs `file`, an ARPA file, plain or .gz. Raises UsageError for one that is missing or not set."""

    def __init__(self, *, file: str | None) -> None:
        if not file:
            raise UsageError("lm.file is not set: an ARPA file, plain or .gz")
        self.file = Path(file)

    def __call__(self, corpus: Corpus, alphabet: Alphabet, folder: Path) -> dict[str, object]:
        """Write the copy and the list of its words into the folder; returns the record of it."""
        if not self.file.is_file():
            raise UsageError(f"lm.file={self.file}: there is no such file")
        return {**install(self.file, folder, corpus.language), "sources": [{"source": str(self.file)}]}

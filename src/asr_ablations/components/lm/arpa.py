"""A model of others, as an ARPA file: a lower-case copy, as our transcripts are written."""

from pathlib import Path
from typing import Any

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.language_models.install import install
from asr_ablations.tools.errors import UsageError


class Lowered:
    """file: an ARPA file, plain or .gz. Raises UsageError for one that is missing or none."""

    def __init__(self, *, file: str | None) -> None:
        if not file:
            raise UsageError("lm.file is not set: an ARPA file, plain or .gz")
        self.file = Path(file)

    def __call__(self, corpus: Any, alphabet: Alphabet, folder: Path) -> dict[str, Any]:
        """Write the copy and its words into the folder; what the record should say."""
        if not self.file.is_file():
            raise UsageError(f"lm.file={self.file}: there is no such file")
        return {**install(self.file, folder), "sources": [{"source": str(self.file)}]}

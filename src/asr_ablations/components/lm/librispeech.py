"""The n-gram models published with LibriSpeech (Panayotov et al. 2015; Ambroszczyk2019 §2.2 uses the 4-gram)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.corpus import Corpus
from asr_ablations.data.download import download
from asr_ablations.language_models.model import install
from asr_ablations.tools.files import sha256
from asr_ablations.tools.machine import one_at_a_time
from asr_verdicts.errors import choices


class LibriSpeechModel:
    """Downloads the published model <address>/<name>.arpa.gz.

    files: size in bytes and SHA-256 (None if unpublished) of each model by name. Raises UsageError if `files` has no
    model `name`, if the download fails, or if the downloaded file has the wrong size or hash.
    """

    def __init__(self, *, name: str, address: str, files: Mapping[str, Mapping[str, Any]]) -> None:
        if name not in files:
            raise choices("lm.name", name, list(files))
        self.name, self.address, self.expected = name, address.rstrip("/"), files[name]

    def __call__(self, corpus: Corpus, alphabet: Alphabet, folder: Path) -> dict[str, object]:
        """Write a lower-case copy of the model and its word list to `folder`, and return the model's record.

        The download is stored next to `folder`, where the next call can continue it after an interruption.
        """
        address = f"{self.address}/{self.name}.arpa.gz"
        file = folder.parent / f".{self.name}.arpa.gz"
        with one_at_a_time(file.with_suffix(".lock"), f"waiting for another process that is downloading {address}"):
            checksum, size = self.expected["sha256"], self.expected["bytes"]
            download(address, file, checksum=checksum, size=size, setting="lm.address")
            try:
                digest = sha256(file)
                record = install(file, folder, corpus.language)
            finally:
                file.unlink()
        return {**record, "sources": [{"source": address, "sha256": digest}]}

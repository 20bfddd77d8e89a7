"""The language models that came with LibriSpeech (Panayotov et al. 2015; papers/003 §2.2 uses the 4-gram)."""

import hashlib
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.progress import Progress

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.language_models.install import install
from asr_ablations.tools.errors import UsageError, choices

BLOCK = 1 << 20


class LibriSpeechModel:
    """name: of a file at the address, without .arpa.gz; files: its size in bytes and, where known, its SHA-256.

    Raises UsageError for a name that there is not, an address that does not answer, a file of another size or hash.
    """

    def __init__(self, *, name: str, address: str, files: Mapping[str, Mapping[str, Any]]) -> None:
        if name not in files:
            raise choices("lm.name", name, list(files))
        self.name, self.address, self.expected = name, address.rstrip("/"), files[name]

    def __call__(self, corpus: Any, alphabet: Alphabet, folder: Path) -> dict[str, Any]:
        """Download, verify, and write a lower-case copy and its words; what the record should say."""
        file = folder / f"{self.name}.arpa.gz"
        address = f"{self.address}/{file.name}"
        temporary = file.with_name(f".{file.name.removesuffix('.gz')}.{os.getpid()}.gz")
        try:
            digest = self._download(address, temporary)
            told = install(temporary, folder)
        finally:
            temporary.unlink(missing_ok=True)
        return {**told, "sources": [{"source": address, "sha256": digest}]}

    def _download(self, address: str, target: Path) -> str:
        digest, size = hashlib.sha256(), 0
        try:
            with (
                urllib.request.urlopen(address, timeout=60) as answer,
                target.open("wb") as out,
                Progress(disable=not sys.stdout.isatty()) as bar,
            ):
                task = bar.add_task(address.rpartition("/")[2], total=self.expected["bytes"])
                while block := answer.read(BLOCK):
                    out.write(block)
                    digest.update(block)
                    size += len(block)
                    bar.update(task, completed=size)
        except (OSError, urllib.error.URLError, ValueError) as error:
            raise UsageError(f"{address}: cannot be downloaded ({error})") from error
        found = {"bytes": size, "sha256": digest.hexdigest()}
        for key, value in self.expected.items():
            if value is not None and found[key] != value:
                raise UsageError(f"{address}: another file than expected ({key} {found[key]}, expected {value})")
        return found["sha256"]  # type: ignore[return-value]

"""KenLM's programs lmplz and build_binary, on the PATH or next to Python, where `make lmplz` installs them."""

import math
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

import kenlm

from asr_ablations.language_models.text import units
from asr_verdicts.errors import UsageError
from asr_verdicts.files import whole_file


def find(name: str) -> Path | None:
    """Return the program with this name or path, or None if it is missing."""
    program = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    return Path(program) if program else None


def lmplz(program: Path, text: Path, arpa: Path, order: int, prune: Sequence[int]) -> None:
    """Write an ARPA file from a text with one sentence per line. Raises UsageError with the end of lmplz's output."""
    options = ["-o", str(order), "--discount_fallback", "--skip_symbols", "-S", "20%", "-T", f"{arpa.parent}/"]
    _run(arpa, program, *options, "--prune", *map(str, prune), "--text", text, "--arpa")


def binary(program: Path, arpa: Path, target: Path) -> None:
    """Convert an ARPA file to KenLM's binary, which loads immediately. Raises UsageError if build_binary fails."""
    _run(target, program, arpa)


def _run(target: Path, *command: str | Path) -> None:
    """Run a program whose last argument is the file that it writes."""
    with whole_file(target) as output:
        process = subprocess.run([*command, output], capture_output=True, text=True, check=False)
        if process.returncode:
            lines = [line for line in process.stderr.splitlines() if line.strip()]
            raise UsageError(f"{command[0]} failed: {' '.join(lines[-2:]) or f'exit code {process.returncode}'}")


Fit: TypeAlias = dict[str, float]
"""Numbers of sentences and words, and measures of fit. oov_rate: the share of words unknown to the model."""


def fit(ngrams: kenlm.Model, sentences: Iterable[Sequence[str]], unit: str) -> Fit:
    """Measure a model's fit to sentences. The perplexity is over words and sentence ends, as in KenLM's `query`, with
    and without unknown words. The entropy is in bits per word.
    """
    total = without_oov = 0.0
    words = unknown = ends = 0
    for sentence in sentences:
        ends += 1
        for score, _, oov in ngrams.full_scores(" ".join(units(sentence, unit))):
            total += score
            without_oov += 0.0 if oov else score
            words, unknown = words + 1, unknown + oov
    counted = max(1, words)  # including sentence ends
    return {
        "sentences": ends,
        "words": words - ends,
        "oov_rate": unknown / max(1, words - ends),
        "perplexity": 10 ** (-total / counted),
        "perplexity_without_oov": 10 ** (-without_oov / max(1, words - unknown)),
        "bits_per_word": -total * math.log2(10) / max(1, words - ends),
    }

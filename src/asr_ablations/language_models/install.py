"""Models of others in a folder of ours."""

from pathlib import Path
from typing import Any

from asr_ablations.language_models.arpa import lower_case, read_unigrams
from asr_ablations.language_models.model import ARPA, MARKS
from asr_ablations.language_models.words import WORDS
from asr_ablations.tools.files import write


def install(file: Path, folder: Path) -> dict[str, Any]:
    """The lower-case copy and its list of words."""
    lower_case(file, folder / ARPA)
    words = sorted(set(read_unigrams(folder / ARPA)) - set(MARKS))
    write(folder / WORDS, "".join(f"{word}\n" for word in words))
    return {"unit": "word", "vocabulary": len(words), "estimator": "none, a model of others"}

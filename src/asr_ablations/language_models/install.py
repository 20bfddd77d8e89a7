"""Installation of an existing ARPA model, from a file, in a model folder."""

from pathlib import Path

from asr_ablations.language_models.arpa import check_counts, lower_case, read_unigrams
from asr_ablations.language_models.model import ARPA, MARKS
from asr_ablations.language_models.words import WORDS
from asr_ablations.tools.files import Json, write


def install(file: Path, folder: Path) -> Json:
    """Write the lower-case copy of a model and its list of words, and return what to record about it.

    Raises UsageError as `read_unigrams`, `lower_case` and `check_counts`.
    """
    check_counts(file)
    lower_case(file, folder / ARPA)
    check_counts(folder / ARPA)  # of a compressed one the size is known only now
    words = sorted(set(read_unigrams(folder / ARPA)) - set(MARKS))
    write(folder / WORDS, "".join(f"{word}\n" for word in words))
    return {"unit": "word", "vocabulary": len(words), "estimator": "none, an existing model"}

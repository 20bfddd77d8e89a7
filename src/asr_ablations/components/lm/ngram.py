"""An n-gram model estimated from transcripts or from a text file."""

from collections.abc import Sequence
from pathlib import Path

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.corpus import Corpus
from asr_ablations.language_models.model import ARPA, SPACE, WORDS, units
from asr_ablations.language_models.ngram import estimate, find_program, run_lmplz, write_arpa
from asr_ablations.language_models.text import collect
from asr_ablations.tools.checks import a_list, is_whole, path_or_none, whole
from asr_verdicts.errors import choices
from asr_verdicts.files import write

ORDERS = (2, 6)
"""Smallest and largest order. KenLM's Python module is compiled for orders up to 6."""

USUAL = "lmplz"
"""The default program. If it is not installed, the Python estimator is used instead."""


class NGram:
    """Estimates an n-gram model with modified Kneser-Ney smoothing. Raises UsageError for values out of range.

    - order: maximum number of units in an n-gram
    - unit: word or character
    - text: text file to use instead of the training transcripts, or None to use the transcripts
    - include: validation or test sets whose transcripts are also used
    - prune: for each order, the largest count of n-grams to leave out; the last value applies to all higher orders
    - program: name or path of lmplz, or None for the Python estimator
    """

    def __init__(
        self,
        *,
        order: int,
        unit: str,
        text: str | None,
        include: Sequence[str],
        prune: Sequence[int],
        program: str | None,
    ) -> None:
        whole("lm.order", order, *ORDERS)
        if unit not in ("word", "character"):
            raise choices("lm.unit", unit, ("word", "character"))
        rising = all(is_whole(count, 0) for count in prune) and list(prune) == sorted(prune)
        if not prune or prune[0] != 0 or not rising or len(prune) > order:
            raise choices("lm.prune", list(prune), "counts that begin with 0 and never decrease, such as [0, 0, 1]")
        self.order, self.unit, self.text = order, unit, path_or_none("lm.text", text)
        self.include = a_list("lm.include", include)
        self.prune = [*prune, *[prune[-1]] * (order - len(prune))]
        self.program = path_or_none("lm.program", program)
        if self.program not in (None, USUAL) and find_program(str(self.program)) is None:
            raise choices("lm.program", program, f"the name or path of a program, such as {USUAL}, or null for Python")

    def __call__(self, corpus: Corpus, alphabet: Alphabet, folder: Path) -> dict[str, object]:
        """Write the model and its word list to `folder`, and return the model's record."""
        texts, sources = collect(corpus, alphabet, self.text, self.include)
        words = sorted({word for sentence in texts for word in sentence})
        write(folder / WORDS, "".join(f"{word}\n" for word in words))
        sentences = [units(sentence, self.unit) for sentence in texts]
        estimator = self._estimate(sentences, folder)
        # the vocabulary of a character model includes the space
        vocabulary = len(words) if self.unit == "word" else len({c for s in sentences for c in s} | {SPACE})
        return {"unit": self.unit, "order": self.order, "prune": self.prune, "estimator": estimator,
                "vocabulary": vocabulary, "sources": sources}  # fmt: skip

    def _estimate(self, sentences: list[list[str]], folder: Path) -> str:
        program = find_program(self.program) if self.program else None
        if program is None:
            if self.program:
                print(f"{self.program} is not on the PATH (make lmplz builds it): estimating in Python, which keeps "
                      "all n-grams in memory")  # fmt: skip
            write_arpa(folder / ARPA, estimate(sentences, self.order, self.prune))
            return "python"
        text = folder / ".text"
        write(text, "".join(" ".join(sentence) + "\n" for sentence in sentences))
        try:
            run_lmplz(program, text, folder / ARPA, self.order, self.prune)
        finally:
            text.unlink()
        return "lmplz"

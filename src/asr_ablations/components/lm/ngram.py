"""An n-gram model from transcripts or a text file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.language_models import programs
from asr_ablations.language_models.arpa import write_arpa
from asr_ablations.language_models.kneser_ney import estimate
from asr_ablations.language_models.model import ARPA, SPACE
from asr_ablations.language_models.text import collect, units
from asr_ablations.language_models.words import WORDS
from asr_ablations.tools.errors import choices
from asr_ablations.tools.files import write

ORDERS = (2, 6)
"""What KenLM's Python module is compiled for, and what has a context at all."""


class NGram:
    """order: words an n-gram; unit: word or character; text: a file in place of the training transcripts; include: sets
    held out whose transcripts may enter; prune: n-grams seen at most so often are left out, a number an order (the last
    holds for the rest); program: lmplz, by name or path, null for the estimator of ours.
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
        if isinstance(order, bool) or not isinstance(order, int) or not ORDERS[0] <= order <= ORDERS[1]:
            raise choices("lm.order", order, f"a whole number, {ORDERS[0]} to {ORDERS[1]}")
        if unit not in ("word", "character"):
            raise choices("lm.unit", unit, ("word", "character"))
        rising = all(isinstance(n, int) and n >= 0 for n in prune) and list(prune) == sorted(prune)
        if not prune or prune[0] != 0 or not rising or len(prune) > order:
            raise choices("lm.prune", list(prune), "counts that never fall, the first 0, as [0, 0, 1]")
        self.order, self.unit, self.text, self.include = order, unit, text, list(include)
        self.prune = [*prune, *[prune[-1]] * (order - len(prune))]
        self.program = program

    def __call__(self, corpus: Any, alphabet: Alphabet, folder: Path) -> dict[str, Any]:
        """Write the model and its words into the folder; what the record should say."""
        text = collect(corpus, alphabet, self.text, self.include)
        words = sorted({word for sentence in text.sentences for word in sentence})
        write(folder / WORDS, "".join(f"{word}\n" for word in words))
        sentences = [units(sentence, self.unit) for sentence in text.sentences]
        estimator = self._estimate(sentences, folder)
        # after the first number, whose n-grams are the single words, a model of characters has the space, too
        vocabulary = len(words) if self.unit == "word" else len({c for s in sentences for c in s} | {SPACE})
        return {"unit": self.unit, "order": self.order, "prune": self.prune, "estimator": estimator,
                "vocabulary": vocabulary, "sources": text.sources}  # fmt: skip

    def _estimate(self, sentences: list[list[str]], folder: Path) -> str:
        program = programs.find(self.program) if self.program else None
        if program is None:
            if self.program:
                print(f"no {self.program} on the PATH (make lmplz builds it): estimated in Python, which holds all "
                      "n-grams in memory")  # fmt: skip
            write_arpa(folder / ARPA, estimate(sentences, self.order, self.prune))
            return "python"
        text = folder / ".text"
        write(text, "".join(" ".join(sentence) + "\n" for sentence in sentences))
        try:
            programs.lmplz(program, text, folder / ARPA, self.order, self.prune)
        finally:
            text.unlink()
        return "lmplz"

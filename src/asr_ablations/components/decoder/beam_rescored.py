"""Prefix beam search whose best transcripts are rescored by a recurrent language model."""

from typing import Any

import numpy as np

from asr_ablations.components.decoder.beam import LanguageModelBeam
from asr_ablations.data.alphabet import Alphabet
from asr_ablations.language_models.recurrent import load
from asr_verdicts.errors import UsageError


class BeamRescored(LanguageModelBeam):
    """Decodes log_probs (B, T, V) in nats and lengths (B,) by maximising log P_ctc + α log P_lm + β · words.

    The search itself uses no language model. This score only selects a transcript from the final beam. lm: folder that
    src/lm.py lm=lstm wrote. Raises UsageError if the model is missing or damaged, or lacks letters of the alphabet.
    """

    def __init__(self, alphabet: Alphabet, *, lm: str | None, **search: Any) -> None:
        super().__init__(alphabet, **search)
        self.model, file = load(lm)
        if missing := sorted(set(alphabet.letters) - set(self.model.letters)):
            raise UsageError(f"decoder.lm={lm}: the model lacks the letters {' '.join(missing)!r} of the alphabet")
        self.files = {"lm": file}

    def best(self, row: np.ndarray) -> str:
        texts = self.best_texts(row)
        language = self.model.scores(list(texts)) if self.alpha else [0.0] * len(texts)
        scores = {
            text: log_probability + self.alpha * score + self.beta * len(text.split())
            for (text, log_probability), score in zip(texts.items(), language, strict=True)
        }
        return max(scores, key=scores.__getitem__)

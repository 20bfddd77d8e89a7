"""Prefix beam search whose n best texts are scored again by a recurrent language model."""

import numpy as np

from asr_ablations.components.decoder.beam_search import LanguageModelSearch, best_texts, prefix_search
from asr_ablations.data.alphabet import Alphabet
from asr_ablations.language_models.recurrent import load
from asr_verdicts.errors import UsageError


class BeamRescored(LanguageModelSearch):
    """(log_probs (B, T, V) in nats, lengths (B,)) → B texts: of the beam's texts, the best by
    log P_ctc + α log P_lm + β words.

    lm: a folder that src/lm.py lm=lstm has written. The search has no language model: a text that it does not reach is
    not found. The rest as in BeamLM. Raises UsageError as BeamLM does.
    """

    def __init__(
        self,
        alphabet: Alphabet,
        *,
        beam_width: int,
        prune_beams: float,
        prune_symbols: float,
        lm: str | None,
        alpha: float,
        beta: float,
    ) -> None:
        super().__init__(alphabet, beam_width, prune_beams, prune_symbols, alpha, beta)
        self.model, file = load(lm)
        if odd := sorted(set(alphabet.letters) - set(self.model.letters)):
            raise UsageError(f"decoder.lm={lm}: the model lacks the letters {' '.join(odd)!r} of the alphabet")
        self.files = {"lm": file}
        self.search = prefix_search(alphabet)

    def best(self, row: np.ndarray) -> str:
        found = best_texts(self.search, row, self.beam_width, self.prune_beams, self.prune_symbols)
        language = self.model.scores(list(found)) if self.alpha else [0.0] * len(found)
        scores = {
            text: log_probability + self.alpha * score + self.beta * len(text.split())
            for (text, log_probability), score in zip(found.items(), language, strict=True)
        }
        return max(scores, key=scores.__getitem__)

"""Prefix beam search whose n best texts are scored again by a recurrent language model."""

import numpy as np
import torch

from asr_ablations.components.decoder.beam_search import best_texts, distance, finite, prefix_search, rows, width
from asr_ablations.data.alphabet import Alphabet
from asr_ablations.language_models.recurrent import load
from asr_ablations.tools.errors import UsageError


class BeamRescored:
    """(log_probs (B, T, V) in nats, lengths (B,)) → B texts: of the beam's texts, the best by
    log P_ctc + α log P_lm + β words.

    lm: a folder that src/lm.py lm=lstm has written. The search has no language model: a text that it does not reach is
    not found. The rest as in BeamLM. Raises UsageError as BeamLM does.
    """

    searches = True
    tuned = ("alpha", "beta", "prune_beams")

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
        self.alphabet = alphabet
        self.beam_width = width(beam_width)
        self.prune_beams = distance("prune_beams", prune_beams)
        self.prune_symbols = distance("prune_symbols", prune_symbols)
        self.alpha, self.beta = finite("alpha", alpha), finite("beta", beta)
        self.model, file = load(lm)
        if odd := sorted(set(alphabet.letters) - set(self.model.letters)):
            raise UsageError(f"decoder.lm={lm}: the model lacks the letters {' '.join(odd)!r} of the alphabet")
        self.files = {"lm": file}
        self.search = prefix_search(alphabet)

    def __call__(self, log_probs: torch.Tensor, lengths: torch.Tensor) -> list[str]:
        return [self._best(row) for row in rows(log_probs, lengths, self.alphabet)]

    def _best(self, row: np.ndarray) -> str:
        found = best_texts(self.search, row, self.beam_width, self.prune_beams, self.prune_symbols)
        language = self.model.scores(list(found)) if self.alpha else [0.0] * len(found)
        scores = {
            text: log_probability + self.alpha * score + self.beta * len(text.split())
            for (text, log_probability), score in zip(found.items(), language, strict=True)
        }
        return max(scores, key=scores.__getitem__)

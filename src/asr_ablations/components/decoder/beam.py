"""Prefix beam search without a language model (Graves 2012, Hannun et al. 2014; Ambroszczyk2019 §1.5)."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from pyctcdecode import Alphabet as SearchAlphabet
from pyctcdecode import BeamSearchDecoderCTC
from pyctcdecode.language_model import AbstractLanguageModel

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.tools.checks import number, whole
from asr_verdicts.errors import UsageError

WIDEST = 65_536
"""The most hypotheses: with more, one utterance takes hours and all of the memory."""


def check_width(value: object) -> int:
    """Return decoder.beam_width. Raises UsageError unless it is a whole number from 1 to WIDEST."""
    return whole("decoder.beam_width", value, 1, WIDEST)


def check_nats(name: str, value: object) -> float:
    """Return decoder.<name>. Raises UsageError unless it is a number above 0; .inf is allowed."""
    return math.inf if value == math.inf else number(f"decoder.{name}", value, above=0, also=".inf for none (nats)")


def split_batch(log_probs: torch.Tensor, lengths: torch.Tensor, alphabet: Alphabet) -> Iterator[np.ndarray]:
    """Yield an array (length, 1 + letters) per utterance, from log_probs (B, T, V) in nats and lengths (B,).

    The arrays are in float64, because many small numbers are summed. A path keeps its text if a blank replaces the
    separation character. So the separation's probability is added to the blank's, and the search has only letters.
    Raises UsageError if the model has another number of outputs.
    """
    values = log_probs.detach().cpu().double().numpy()
    if alphabet.separation:
        (separation,) = alphabet.encode(alphabet.separation)
        blank = np.logaddexp(values[..., 0], values[..., separation])
        values = np.delete(values, separation, axis=-1)  # a copy: the caller's values stay
        values[..., 0] = blank
    if values.shape[-1] != 1 + len(alphabet.letters):
        tokens = f"a blank and {len(alphabet.letters)} letters"
        raise UsageError(f"decoder: the alphabet needs outputs for {tokens}, but the model has {values.shape[-1]}")
    for row, length in zip(values, lengths.tolist(), strict=True):
        yield row[:length]


class Beam:
    """Decodes log_probs (B, T, V) in nats and lengths (B,) into B texts.

    Each text is the most probable one, summed over its alignments in the beam. Each frame prunes symbols more than
    `prune_symbols` nats below certainty, except the best one. Then it prunes prefixes more than `prune_beams` nats
    behind the best one, and finally all but the best `beam_width`. Raises UsageError for values out of range.
    """

    searches = True

    def __init__(self, alphabet: Alphabet, *, beam_width: int, prune_beams: float, prune_symbols: float) -> None:
        self.beam_width = check_width(beam_width)
        self.prune_beams = check_nats("prune_beams", prune_beams)
        self.prune_symbols = check_nats("prune_symbols", prune_symbols)
        self.alphabet = alphabet
        self.search = self.build_search()

    def build_search(self, language_model: AbstractLanguageModel | None = None) -> BeamSearchDecoderCTC:
        """Build a search over blank and letters. pyctcdecode's build_alphabet would take `_` as blank, `|` as space."""
        return BeamSearchDecoderCTC(SearchAlphabet(["", *self.alphabet.letters], False), language_model)

    def __call__(self, log_probs: torch.Tensor, lengths: torch.Tensor) -> list[str]:
        return [self.best(row) for row in split_batch(log_probs, lengths, self.alphabet)]

    def best(self, row: np.ndarray) -> str:
        """Return the best text for log-probabilities (T, 1 + letters) in nats."""
        return next(iter(self.best_texts(row)))

    def best_texts(self, row: np.ndarray) -> dict[str, float]:
        """Return the texts of the last beam, best first, with log P_ctc in nats."""
        if not len(row):
            return {"": 0.0}
        # prune_history, on by default in decode(), would drop all but one of the prefixes that end in the same words
        beams = self.search.decode_beams(
            row,
            beam_width=self.beam_width,
            beam_prune_logp=-self.prune_beams,
            token_min_logp=-self.prune_symbols,
            prune_history=False,
        )
        texts: dict[str, float] = {}
        for text, _, _, log_probability, _ in beams:
            texts[text] = max(texts.get(text, -math.inf), log_probability)
        return texts


class LanguageModelBeam(Beam):
    """A beam search with a language model: log P_ctc + α log P_lm + β words. search: the parameters of Beam."""

    tuned = ("alpha", "beta", "prune_beams")

    def __init__(self, alphabet: Alphabet, *, alpha: float, beta: float, **search: Any) -> None:
        super().__init__(alphabet, **search)
        self.alpha, self.beta = number("decoder.alpha", alpha), number("decoder.beta", beta)

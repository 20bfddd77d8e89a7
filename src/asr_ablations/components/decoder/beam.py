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
"""The largest beam width. With a larger one, an utterance takes hours and all of the memory."""


def check_nats(name: str, value: object) -> float:
    """Return the value of decoder.<name>. Raises UsageError unless it is above 0; infinity is allowed."""
    return math.inf if value == math.inf else number(f"decoder.{name}", value, above=0, also=".inf for none (nats)")


def split_batch(log_probs: torch.Tensor, lengths: torch.Tensor, alphabet: Alphabet) -> Iterator[np.ndarray]:
    """Yield the log-probabilities (length, 1 + units) of each utterance, from log_probs (B, T, V) and lengths (B,).

    They are in float64, because many small numbers are summed. Replacing the separation character of a path by a blank
    does not change the text. So its probability is added to the probability of the blank, and the search does without
    it. Raises UsageError if the number of outputs does not fit the alphabet.
    """
    values = log_probs.detach().cpu().double().numpy()
    if alphabet.separation:
        (separation,) = alphabet.encode(alphabet.separation)
        blank = np.logaddexp(values[..., 0], values[..., separation])
        values = np.delete(values, separation, axis=-1)  # a copy, so the caller's values do not change
        values[..., 0] = blank
    if values.shape[-1] != 1 + len(alphabet.searched):
        tokens = f"a blank and {len(alphabet.searched)} {'letters' if alphabet.spells else 'pieces of words'}"
        raise UsageError(f"decoder: the alphabet needs outputs for {tokens}, but the model has {values.shape[-1]}")
    for row, length in zip(values, lengths.tolist(), strict=True):
        yield row[:length]


class Beam:
    """Decodes log_probs (B, T, V) in nats and lengths (B,) into B texts.

    The most probable text is returned, where the probability is a sum over alignments in the beam. In every frame,
    symbols with a log-probability below -`prune_symbols` are skipped, except the best one. Then prefixes more than
    `prune_beams` nats behind the best one are dropped, and all but the best `beam_width`. Raises UsageError for values
    out of range.
    """

    searches = True

    def __init__(self, alphabet: Alphabet, *, beam_width: int, prune_beams: float, prune_symbols: float) -> None:
        self.beam_width = whole("decoder.beam_width", beam_width, 1, WIDEST)
        self.prune_beams = check_nats("prune_beams", prune_beams)
        self.prune_symbols = check_nats("prune_symbols", prune_symbols)
        self.alphabet = alphabet
        self.search = self.build_search()

    def build_search(self, language_model: AbstractLanguageModel | None = None) -> BeamSearchDecoderCTC:
        """Build a search over blank and units. pyctcdecode's build_alphabet would treat _ as blank and | as space."""
        symbols = SearchAlphabet(["", *self.alphabet.searched], not self.alphabet.spells)
        return BeamSearchDecoderCTC(symbols, language_model)

    def __call__(self, log_probs: torch.Tensor, lengths: torch.Tensor) -> list[str]:
        return [self.best(row) for row in split_batch(log_probs, lengths, self.alphabet)]

    def best(self, row: np.ndarray) -> str:
        """Return the best text for log-probabilities (T, 1 + units) in nats."""
        return next(iter(self.best_texts(row)))

    def best_texts(self, row: np.ndarray) -> dict[str, float]:
        """Return the texts in the beam after the last frame, best first, each with log P_ctc in nats."""
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
    """A beam search that maximises log P_ctc + α log P_lm + β · number of words. search: the parameters of Beam."""

    tuned = ("alpha", "beta", "prune_beams")

    def __init__(self, alphabet: Alphabet, *, alpha: float, beta: float, **search: Any) -> None:
        super().__init__(alphabet, **search)
        self.alpha, self.beta = number("decoder.alpha", alpha), number("decoder.beta", beta)

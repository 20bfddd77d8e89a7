"""Parts shared by the beam decoders: value checks, utterances of a batch, prefix search."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
import torch
from pyctcdecode import Alphabet as SearchAlphabet
from pyctcdecode import BeamSearchDecoderCTC
from pyctcdecode.language_model import AbstractLanguageModel

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.tools.checks import is_number, whole
from asr_verdicts.errors import UsageError, choices

WIDEST = 65_536
"""The most hypotheses: with more, one utterance takes hours and all of the memory."""


def check_width(value: object) -> int:
    """Return decoder.beam_width. Raises UsageError unless it is a whole number from 1 to WIDEST."""
    return whole("decoder.beam_width", value, 1, WIDEST)


def check_finite(name: str, value: object) -> float:
    """Return decoder.<name>. Raises UsageError unless it is a finite number."""
    if is_number(value):
        return float(value)
    raise choices(f"decoder.{name}", value, "a finite number")


def check_nats(name: str, value: object) -> float:
    """Return decoder.<name>. Raises UsageError unless it is a number above 0; .inf is allowed."""
    if value == math.inf or (is_number(value) and value > 0):
        return float(value)
    raise choices(f"decoder.{name}", value, "a number above 0 (nats; .inf for none)")


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


def build_search(alphabet: Alphabet, language_model: AbstractLanguageModel | None = None) -> BeamSearchDecoderCTC:
    """Build a search over blank and letters. pyctcdecode's build_alphabet would take `_` as blank and `|` as space."""
    return BeamSearchDecoderCTC(SearchAlphabet(["", *alphabet.letters], False), language_model)


def best_text(search: BeamSearchDecoderCTC, row: np.ndarray, width: int, beams: float, symbols: float) -> str:
    """Return the best text of one utterance, from log-probabilities (T, 1 + letters) in nats.

    Each frame prunes symbols more than `symbols` nats below certainty, except the best one. Then it prunes prefixes
    more than `beams` nats behind the best one, and finally all but the best `width`.
    """
    return next(iter(best_texts(search, row, width, beams, symbols)))


def best_texts(
    search: BeamSearchDecoderCTC, row: np.ndarray, width: int, beams: float, symbols: float
) -> dict[str, float]:
    """Return the texts of the last beam, best first, with log P_ctc in nats; pruned as in best_text."""
    if not len(row):
        return {"": 0.0}
    # prune_history, on by default in decode(), would drop all but one of the prefixes that end in the same words
    beams_left = search.decode_beams(
        row, beam_width=width, beam_prune_logp=-beams, token_min_logp=-symbols, prune_history=False
    )
    texts: dict[str, float] = {}
    for text, _, _, log_probability, _ in beams_left:
        texts[text] = max(texts.get(text, -math.inf), log_probability)
    return texts


class LanguageModelSearch(ABC):
    """Decodes log_probs (B, T, V) in nats and lengths (B,) into B texts, with a language model. Raises UsageError for
    values out of range.
    """

    searches = True
    tuned = ("alpha", "beta", "prune_beams")

    def __init__(
        self, alphabet: Alphabet, beam_width: int, prune_beams: float, prune_symbols: float, alpha: float, beta: float
    ) -> None:
        self.alphabet = alphabet
        self.beam_width = check_width(beam_width)
        self.prune_beams = check_nats("prune_beams", prune_beams)
        self.prune_symbols = check_nats("prune_symbols", prune_symbols)
        self.alpha, self.beta = check_finite("alpha", alpha), check_finite("beta", beta)

    def __call__(self, log_probs: torch.Tensor, lengths: torch.Tensor) -> list[str]:
        return [self.best(row) for row in split_batch(log_probs, lengths, self.alphabet)]

    @abstractmethod
    def best(self, row: np.ndarray) -> str:
        """Return the best text for log-probabilities (T, 1 + letters) in nats."""

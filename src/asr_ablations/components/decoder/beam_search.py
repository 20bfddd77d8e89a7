"""Shared parts of the beam decoders: checks of their values, rows of a batch, prefixes."""

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
"""Hypotheses: with more, a single utterance takes hours and the machine's memory."""


def width(value: object) -> int:
    """The value of decoder.beam_width. Raises UsageError for one that is no whole number from 1 to WIDEST."""
    return whole("decoder.beam_width", value, 1, WIDEST)


def finite(name: str, value: object) -> float:
    """The value of decoder.<name>. Raises UsageError for one that is not a finite number."""
    if is_number(value):
        return float(value)
    raise choices(f"decoder.{name}", value, "a finite number")


def distance(name: str, value: object) -> float:
    """The value of decoder.<name>. Raises UsageError for one that is not a number above 0; .inf is one."""
    if value == math.inf or (is_number(value) and value > 0):
        return float(value)
    raise choices(f"decoder.{name}", value, "a number above 0 (nats; .inf for none)")


def rows(log_probs: torch.Tensor, lengths: torch.Tensor, alphabet: Alphabet) -> Iterator[np.ndarray]:
    """From log_probs (B, T, V) and lengths (B,) to B arrays (length, 1 + letters) in float64, in which sums of many
    small numbers stay exact enough.

    A separation character stands for nothing, as a blank does: with a blank in its place every path has the same text.
    So its probability is added to the blank's, and a search works with the letters alone. Raises UsageError if the
    model has another number of outputs.
    """
    everything = log_probs.detach().cpu().double().numpy()
    if alphabet.separation:
        (separation,) = alphabet.encode(alphabet.separation)
        nothing = np.logaddexp(everything[..., 0], everything[..., separation])
        everything = np.delete(everything, separation, axis=-1)  # a copy: the caller's values stay
        everything[..., 0] = nothing
    if everything.shape[-1] != 1 + len(alphabet.letters):
        tokens = f"a blank and {len(alphabet.letters)} letters"
        raise UsageError(f"decoder: it searches {tokens}, and the model has {everything.shape[-1]} outputs for these")
    for row, length in zip(everything, lengths.tolist(), strict=True):
        yield row[:length]


def prefix_search(alphabet: Alphabet, language_model: AbstractLanguageModel | None = None) -> BeamSearchDecoderCTC:
    """The search over the blank and the letters; pyctcdecode's build_alphabet would take `_` and `|` for blank and
    space.
    """
    return BeamSearchDecoderCTC(SearchAlphabet(["", *alphabet.letters], False), language_model)


def best_text(search: BeamSearchDecoderCTC, row: np.ndarray, width: int, beams: float, symbols: float) -> str:
    """The best text of one utterance, from log-probabilities (T, 1 + letters) in nats.

    In each frame symbols more than `symbols` nats below certainty are pruned (never the best one), then prefixes more
    than `beams` nats behind the best one, then all prefixes but the best `width`.
    """
    return next(iter(best_texts(search, row, width, beams, symbols)))


def best_texts(
    search: BeamSearchDecoderCTC, row: np.ndarray, width: int, beams: float, symbols: float
) -> dict[str, float]:
    """The texts that are left at the end, the best one first, with log P_ctc in nats; pruned as in best_text."""
    if not len(row):
        return {"": 0.0}
    # prune_history, the default of decode(), drops all but one of the prefixes that end in the same words
    beams_left = search.decode_beams(
        row, beam_width=width, beam_prune_logp=-beams, token_min_logp=-symbols, prune_history=False
    )
    texts: dict[str, float] = {}
    for text, _, _, log_probability, _ in beams_left:
        texts[text] = max(texts.get(text, -math.inf), log_probability)
    return texts


class LanguageModelSearch(ABC):
    """A search with a language model: (log_probs (B, T, V) in nats, lengths (B,)) → B texts. Raises UsageError for
    values out of range.
    """

    searches = True
    tuned = ("alpha", "beta", "prune_beams")

    def __init__(
        self, alphabet: Alphabet, beam_width: int, prune_beams: float, prune_symbols: float, alpha: float, beta: float
    ) -> None:
        self.alphabet = alphabet
        self.beam_width = width(beam_width)
        self.prune_beams = distance("prune_beams", prune_beams)
        self.prune_symbols = distance("prune_symbols", prune_symbols)
        self.alpha, self.beta = finite("alpha", alpha), finite("beta", beta)

    def __call__(self, log_probs: torch.Tensor, lengths: torch.Tensor) -> list[str]:
        return [self.best(row) for row in rows(log_probs, lengths, self.alphabet)]

    @abstractmethod
    def best(self, row: np.ndarray) -> str:
        """The best text of log-probabilities (T, V)."""

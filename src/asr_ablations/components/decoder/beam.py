"""Prefix beam search without a language model (Graves 2012, Hannun et al. 2014; Ambroszczyk2019 §1.5)."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from asr_ablations.components.decoder.prefix_search import PrefixSearch, WordModel
from asr_ablations.data.alphabet import Alphabet
from asr_ablations.tools.checks import number, whole
from asr_verdicts.errors import UsageError

try:
    import pyctcdecode
except ImportError:  # its last release is from 2023, and needs numpy 1 unless the installer overrides that
    pyctcdecode = None  # type: ignore[assignment]

WIDEST = 65_536
"""Maximum beam width. With a wider beam, one utterance would take hours and all of the memory."""


def check_nats(name: str, value: object) -> float:
    """Return the value of the key decoder.<name>. Raises UsageError unless it is above 0. Infinity is allowed."""
    return math.inf if value == math.inf else number(f"decoder.{name}", value, above=0, also=".inf for none (nats)")


def split_batch(log_probs: torch.Tensor, lengths: torch.Tensor, alphabet: Alphabet) -> Iterator[np.ndarray]:
    """Yield the log-probabilities (length, 1 + units) of each utterance, from log_probs (B, T, V) and lengths (B,).

    The result is in float64, because the search adds up many small probabilities. If a blank replaces the separation
    character in a path, the transcript stays the same. The separation's probability is therefore added to the blank's,
    and the separation's output is removed. Raises UsageError if the number of outputs does not fit the alphabet.
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
    """Decodes log_probs (B, T, V) in nats and lengths (B,) into B transcripts.

    The result is the most probable transcript. Its probability is the sum over its alignments in the beam. In each
    frame, symbols with a log-probability below -`prune_symbols` are skipped, except the best symbol. Prefixes more than
    `prune_beams` nats below the best prefix are then dropped, and at most `beam_width` prefixes are kept. Raises
    UsageError for values out of range.
    """

    searches = True

    def __init__(self, alphabet: Alphabet, *, beam_width: int, prune_beams: float, prune_symbols: float) -> None:
        self.beam_width = whole("decoder.beam_width", beam_width, 1, WIDEST)
        self.prune_beams = check_nats("prune_beams", prune_beams)
        self.prune_symbols = check_nats("prune_symbols", prune_symbols)
        self.alphabet = alphabet
        self.search = self.build_search()

    def build_search(self, model: WordModel | None = None) -> Any:
        """Build pyctcdecode's search. For word pieces, or without pyctcdecode, build a PrefixSearch.

        pyctcdecode's build_alphabet is not used, because it would treat _ as a blank and | as a space.
        """
        if pyctcdecode is None or not self.alphabet.spells:
            return PrefixSearch(self.alphabet.searched, self.alphabet.spells, model)
        alphabet = pyctcdecode.Alphabet(["", *self.alphabet.searched], False)
        return pyctcdecode.BeamSearchDecoderCTC(alphabet, model)  # type: ignore[arg-type]

    def __call__(self, log_probs: torch.Tensor, lengths: torch.Tensor) -> list[str]:
        return [self.best(row) for row in split_batch(log_probs, lengths, self.alphabet)]

    def best(self, row: np.ndarray) -> str:
        """Return the best transcript for an utterance's log-probabilities (T, 1 + units) in nats."""
        return next(iter(self.best_texts(row)))

    def best_texts(self, row: np.ndarray) -> dict[str, float]:
        """Return the transcripts in the beam after the last frame, best first, each with its log P_ctc in nats."""
        if not len(row):
            return {"": 0.0}
        # prune_history is off, because it would keep only one of the prefixes that end in the same words
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
    """A beam search that maximises log P_ctc + α log P_lm + β · number of words. search: arguments of Beam"""

    tuned = ("alpha", "beta", "prune_beams")

    def __init__(self, alphabet: Alphabet, *, alpha: float, beta: float, **search: Any) -> None:
        super().__init__(alphabet, **search)
        self.alpha, self.beta = number("decoder.alpha", alpha), number("decoder.beta", beta)

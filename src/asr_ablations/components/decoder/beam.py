"""Prefix beam search without a language model (Graves 2012, Hannun et al. 2014; Ambroszczyk2019 §1.5)."""

import torch

from asr_ablations.components.decoder.beam_search import best_text, distance, prefix_search, rows, width
from asr_ablations.data.alphabet import Alphabet


class Beam:
    """(log_probs (B, T, V) in nats, lengths (B,)) → B texts, each the most probable one by the sum over its
    alignments that the beam has kept.

    beam_width: number of prefixes; prune_beams, prune_symbols: in nats. Raises UsageError for values out of range.
    """

    searches = True

    def __init__(self, alphabet: Alphabet, *, beam_width: int, prune_beams: float, prune_symbols: float) -> None:
        self.beam_width = width(beam_width)
        self.prune_beams = distance("prune_beams", prune_beams)
        self.prune_symbols = distance("prune_symbols", prune_symbols)
        self.alphabet = alphabet
        self.search = prefix_search(alphabet)

    def __call__(self, log_probs: torch.Tensor, lengths: torch.Tensor) -> list[str]:
        return [
            best_text(self.search, row, self.beam_width, self.prune_beams, self.prune_symbols)
            for row in rows(log_probs, lengths, self.alphabet)
        ]

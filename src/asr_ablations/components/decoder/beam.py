"""Prefix beam search without a language model (Graves 2012, Hannun et al. 2014; Ambroszczyk2019 §1.5)."""

import torch

from asr_ablations.components.decoder.beam_search import best_text, build_search, check_nats, check_width, split_batch
from asr_ablations.data.alphabet import Alphabet


class Beam:
    """Decodes log_probs (B, T, V) in nats and lengths (B,) into B texts.

    Each text is the most probable one, summed over its alignments in the beam. beam_width is a number of prefixes;
    prune_beams and prune_symbols are in nats. Raises UsageError for values out of range.
    """

    searches = True

    def __init__(self, alphabet: Alphabet, *, beam_width: int, prune_beams: float, prune_symbols: float) -> None:
        self.beam_width = check_width(beam_width)
        self.prune_beams = check_nats("prune_beams", prune_beams)
        self.prune_symbols = check_nats("prune_symbols", prune_symbols)
        self.alphabet = alphabet
        self.search = build_search(alphabet)

    def __call__(self, log_probs: torch.Tensor, lengths: torch.Tensor) -> list[str]:
        return [
            best_text(self.search, row, self.beam_width, self.prune_beams, self.prune_symbols)
            for row in split_batch(log_probs, lengths, self.alphabet)
        ]

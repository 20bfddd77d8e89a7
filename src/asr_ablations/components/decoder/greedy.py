"""Greedy decoding: takes the best symbol of each frame, merges repeats and drops blanks (Graves et al. 2006)."""

import torch

from asr_ablations.data.alphabet import Alphabet


class Greedy:
    """Decodes log_probs (B, T, V) in nats and lengths (B,) into B transcripts."""

    def __init__(self, alphabet: Alphabet) -> None:
        self.alphabet = alphabet

    def __call__(self, log_probs: torch.Tensor, lengths: torch.Tensor) -> list[str]:
        best = log_probs.argmax(dim=-1).cpu()
        texts = []
        for symbols, length in zip(best, lengths.tolist(), strict=True):
            merged = torch.unique_consecutive(symbols[:length])
            texts.append(self.alphabet.decode(merged[merged != 0].tolist()))
        return [" ".join(text.split()) for text in texts]

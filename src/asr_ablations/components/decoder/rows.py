"""Log-probabilities of one utterance after another."""

from collections.abc import Iterator

import numpy as np
import torch


def rows(log_probs: torch.Tensor, lengths: torch.Tensor) -> Iterator[np.ndarray]:
    """From log_probs (B, T, V) and lengths (B,) to B arrays (length, V) in float64, in which sums of many small numbers
    stay exact enough.
    """
    everything = log_probs.detach().cpu().double().numpy()
    for row, length in zip(everything, lengths.tolist(), strict=True):
        yield row[:length]

"""Log-probabilities of one utterance after another, without the separation character."""

from collections.abc import Iterator

import numpy as np
import torch

from asr_ablations.data.alphabet import Alphabet


def rows(log_probs: torch.Tensor, lengths: torch.Tensor, alphabet: Alphabet) -> Iterator[np.ndarray]:
    """From log_probs (B, T, V) and lengths (B,) to B arrays (length, 1 + letters) in float64, in which sums of many
    small numbers stay exact enough.

    A separation character stands for nothing, as a blank does: with a blank in its place every path has the same text.
    So its probability is added to the blank's, and a search works with the letters alone.
    """
    everything = log_probs.detach().cpu().double().numpy()
    if alphabet.separation:
        (separation,) = alphabet.encode(alphabet.separation)
        nothing = np.logaddexp(everything[..., 0], everything[..., separation])
        everything = np.delete(everything, separation, axis=-1)  # a copy: the caller's values stay
        everything[..., 0] = nothing
    for row, length in zip(everything, lengths.tolist(), strict=True):
        yield row[:length]

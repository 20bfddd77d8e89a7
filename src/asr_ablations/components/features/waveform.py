"""The samples themselves, for models that learn their own features (Baevski et al. 2020)."""

import torch
from torch import nn


class Waveform(nn.Module):
    """Returns waveforms (B, S) as frames (B, S, 1) of one sample each, with their lengths (B,).

    The caller normalises each utterance to mean 0 and standard deviation 1, as wav2vec 2.0 and its successors expect.
    """

    size = 1
    samples = True

    def frames(self, lengths: torch.Tensor) -> torch.Tensor:
        return lengths

    def forward(self, waveforms: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return waveforms[..., None], lengths

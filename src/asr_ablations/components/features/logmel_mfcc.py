"""Log energies of mel filters, combined with their cepstral coefficients (Baunsgaard2020 §2.1)."""

import math

import torch
from torch import nn
from torchaudio.functional import create_dct

from asr_ablations.components.features.logmel import LogMel
from asr_ablations.tools.checks import is_whole

LIFTER = 22.0
"""Kaldi's liftering coefficient. It is not a config key, because normalising utterances cancels scale factors."""


class LogMelMFCC(nn.Module):
    """Converts waveforms (B, S) and lengths (B,) in samples to (B, T, bins + cepstra) and lengths (B,) in frames.

    Each frame consists of the log energies from LogMel and the first `cepstra` coefficients of their cosine transform.
    The coefficients are Kaldi's MFCCs with the zeroth coefficient instead of the energy. window and hop are in seconds,
    low and high in Hz. Raises ValueError if there are more cepstra than bins.
    """

    def __init__(self, *, bins: int, cepstra: int, window: float, hop: float, low: float, high: float) -> None:
        super().__init__()
        if not is_whole(cepstra, 1) or cepstra > bins:
            raise ValueError(f"cepstra={cepstra}: expected a whole number from 1 to {bins}, the number of bins")
        self.size = bins + cepstra
        self.logmel = LogMel(bins=bins, window=window, hop=hop, low=low, high=high)
        lifter = 1 + LIFTER / 2 * torch.sin(math.pi * torch.arange(cepstra) / LIFTER)
        self.register_buffer("transform", create_dct(cepstra, bins, "ortho") * lifter, persistent=False)

    def frames(self, lengths: torch.Tensor) -> torch.Tensor:
        return self.logmel.frames(lengths)

    def forward(self, waveforms: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        energies, frames = self.logmel(waveforms, lengths)
        return torch.cat([energies, energies @ self.transform], dim=-1), frames

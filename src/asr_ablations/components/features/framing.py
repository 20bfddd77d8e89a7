"""Kaldi's framing of waveforms, in batches: no frame reaches past the samples, so padding never enters one.

Povey et al. 2011 (Kaldi, feat/feature-window.cc), dither 0: whole frames only, mean removed, pre-emphasis 0.97,
Povey window. Ambroszczyk2019 §1.1 uses spectrograms, Baunsgaard2020 §2.1 filter banks and cepstra of the same frames.
"""

import torch
from torch import nn

PREEMPHASIS = 0.97


class PowerSpectrum(nn.Module):
    """Waveforms (B, S) → power spectrum (B, T, F = fft_size / 2 + 1); `window` and `hop` in samples.

    Kaldi removes the mean of each frame, then emphasises, then windows. All of it is linear, and the window begins with
    0: so the emphasis can be done once for the waveform, and the mean can be removed from the spectrum. That takes two
    passes over the frames instead of six, which is most of the time.
    """

    window: torch.Tensor
    offset: torch.Tensor

    def __init__(self, window: int, hop: int, fft_size: int) -> None:
        super().__init__()
        self.window_size, self.hop, self.fft_size = window, hop, fft_size
        povey = torch.hann_window(window, periodic=False, dtype=torch.float64).pow(0.85)
        # the spectrum of a mean of 1 after emphasis and window
        offset = torch.fft.rfft((1 - PREEMPHASIS) * povey, n=fft_size)
        self.register_buffer("window", povey.float(), persistent=False)
        self.register_buffer("offset", torch.view_as_real(offset).float(), persistent=False)

    def frames(self, lengths: torch.Tensor) -> torch.Tensor:
        """Whole frames (B,) in waveforms of `lengths` (B,) samples."""
        return ((lengths - self.window_size).div(self.hop, rounding_mode="floor") + 1).clamp(min=0)

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        if waveforms.shape[-1] < self.window_size:
            return waveforms.new_zeros(len(waveforms), 0, self.fft_size // 2 + 1)
        emphasised = waveforms - PREEMPHASIS * nn.functional.pad(waveforms[:, :-1], (1, 0))
        frames = emphasised.unfold(-1, self.window_size, self.hop) * self.window
        means = nn.functional.avg_pool1d(waveforms[:, None], self.window_size, self.hop)[:, 0, :, None, None]
        spectrum = torch.view_as_real(torch.fft.rfft(frames, n=self.fft_size))
        return (spectrum - means * self.offset).square().sum(dim=-1)

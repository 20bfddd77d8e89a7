"""Kaldi's framing of a waveform, batched: no frame reaches past the samples, so padding never enters one.

Povey et al. 2011 (Kaldi, feat/feature-window.cc), dither 0: whole frames only, mean removed, pre-emphasis 0.97,
Povey window. papers/003 §1.1 asks for spectrograms, papers/004 §2.1 for filter banks and cepstra of the same frames.
"""

import torch
from torch import nn

PREEMPHASIS = 0.97


class PowerSpectrum(nn.Module):
    """Waveforms (B, S) → power spectrum (B, T, F = fft_size / 2 + 1); `window` and `hop` in samples."""

    window: torch.Tensor

    def __init__(self, window: int, hop: int, fft_size: int) -> None:
        super().__init__()
        self.window_size, self.hop, self.fft_size = window, hop, fft_size
        povey = torch.hann_window(window, periodic=False, dtype=torch.float64).pow(0.85).float()
        self.register_buffer("window", povey, persistent=False)

    def frames(self, lengths: torch.Tensor) -> torch.Tensor:
        """Whole frames in `lengths` samples."""
        return ((lengths - self.window_size).div(self.hop, rounding_mode="floor") + 1).clamp(min=0)

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        if waveforms.shape[-1] < self.window_size:
            return waveforms.new_zeros(len(waveforms), 0, self.fft_size // 2 + 1)
        frames = waveforms.unfold(-1, self.window_size, self.hop)
        frames = frames - frames.mean(dim=-1, keepdim=True)
        before = torch.cat([frames[..., :1], frames[..., :-1]], dim=-1)
        frames = (frames - PREEMPHASIS * before) * self.window
        return torch.fft.rfft(frames, n=self.fft_size).abs().square()

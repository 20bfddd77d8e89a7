"""Log power spectrogram: DeepSpeech2's input (Ambroszczyk2019 §1.1)."""

import torch
from torch import nn

from asr_ablations.components.features.framing import PowerSpectrum, in_samples
from asr_ablations.tools.checks import switch


class Spectrogram(nn.Module):
    """(waveforms (B, S), lengths (B,) in samples) → (log power (B, T, F), lengths (B,) in frames).

    window and hop in seconds; F = window · 16000 / 2 + 1: 161 bins for 20 ms. preemphasis and taper as in
    PowerSpectrum. variance: whether the caller divides each bin by its deviation, or removes its mean alone.
    """

    def __init__(self, *, window: float, hop: float, preemphasis: float, taper: str, variance: bool) -> None:
        super().__init__()
        self.variance = switch("features.variance", variance)
        size, step = in_samples(window, hop)
        self.size = size // 2 + 1
        self.spectrum = PowerSpectrum(size, step, size, preemphasis=preemphasis, taper=taper)

    def frames(self, lengths: torch.Tensor) -> torch.Tensor:
        return self.spectrum.frames(lengths)

    def forward(self, waveforms: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.spectrum(waveforms).clamp(min=1e-10).log(), self.frames(lengths)

"""Log power spectrogram: DeepSpeech2's input (Ambroszczyk2019 §1.1)."""

import torch
from torch import nn

from asr_ablations.components.features.framing import PowerSpectrum, to_samples
from asr_ablations.tools.checks import switch


class Spectrogram(nn.Module):
    """Turns waveforms (B, S) and lengths (B,) in samples into log power (B, T, F) and lengths (B,) in frames.

    window and hop are in seconds; F = window · 16000 / 2 + 1, so 161 bins for 20 ms. preemphasis and taper are as in
    PowerSpectrum. If `variance`, the caller divides each bin by its standard deviation after removing its mean.
    """

    def __init__(self, *, window: float, hop: float, preemphasis: float, taper: str, variance: bool) -> None:
        super().__init__()
        self.variance = switch("features.variance", variance)
        size, step = to_samples(window, hop)
        self.size = size // 2 + 1
        self.spectrum = PowerSpectrum(size, step, size, preemphasis=preemphasis, taper=taper)

    def frames(self, lengths: torch.Tensor) -> torch.Tensor:
        return self.spectrum.frames(lengths)

    def forward(self, waveforms: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.spectrum(waveforms).clamp(min=1e-10).log(), self.frames(lengths)

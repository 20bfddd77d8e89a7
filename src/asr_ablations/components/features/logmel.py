"""Log energies of mel filters."""

import torch
from torch import nn
from torchaudio.compliance.kaldi import get_mel_banks

from asr_ablations import SAMPLE_RATE
from asr_ablations.components.features.spectrogram import POVEY, PREEMPHASIS, PowerSpectrum, to_samples
from asr_ablations.tools.matrix_products import linear


class LogMel(nn.Module):
    """Converts waveforms (B, S) and lengths (B,) in samples to log energies (B, T, bins) and lengths (B,) in frames.

    window and hop are in seconds, low and high in Hz. The log energies equal Kaldi's fbank features with dither 0 for
    samples in -1..1. Raises ValueError for more bins or higher frequencies than the spectrum allows.
    """

    filters: torch.Tensor

    def __init__(self, *, bins: int, window: float, hop: float, low: float, high: float) -> None:
        super().__init__()
        size, step = to_samples(window, hop)
        fft_size = 1 << (size - 1).bit_length()
        self.size = bins
        self.spectrum = PowerSpectrum(size, step, fft_size, preemphasis=PREEMPHASIS, taper=POVEY)
        if not (isinstance(bins, int) and 1 <= bins <= fft_size // 2):
            raise ValueError(f"bins={bins}: expected a whole number from 1 to {fft_size // 2}, half of the spectrum")
        if not 0 <= low < high <= SAMPLE_RATE / 2:
            raise ValueError(f"low={low}, high={high}: expected 0 to {SAMPLE_RATE // 2} Hz, and low below high")
        banks, _ = get_mel_banks(bins, fft_size, float(SAMPLE_RATE), low, high, 100.0, -500.0, 1.0)
        self.register_buffer("filters", nn.functional.pad(banks, (0, 1)), persistent=False)

    def frames(self, lengths: torch.Tensor) -> torch.Tensor:
        return self.spectrum.frames(lengths)

    def forward(self, waveforms: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        spectrum = self.spectrum(waveforms)
        energies = linear(spectrum.flatten(0, 1), self.filters).unflatten(0, spectrum.shape[:2])
        return energies.clamp(min=1e-10).log(), self.frames(lengths)

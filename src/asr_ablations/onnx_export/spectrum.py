"""The power spectrum as a convolution: ONNX has no sliding window, and its Fourier transforms are slow or missing."""

import torch
from torch import nn
from torch.nn.functional import conv1d

from asr_ablations.components.features.framing import PowerSpectrum


class ConvolvedSpectrum(nn.Module):
    """Waveforms (B, S) → power spectrum (B, T, F), with the numbers of a PowerSpectrum.

    The windowed cosines and sines are kernels of a convolution whose stride is the hop. The kernels, computed in
    float64, also subtract the mean.
    """

    kernels: torch.Tensor

    def __init__(self, spectrum: PowerSpectrum) -> None:
        super().__init__()
        self.hop, self.frames = spectrum.hop, spectrum.frames
        size, window = spectrum.window_size, spectrum.window.double().cpu()
        impulses = torch.eye(size, dtype=torch.float64)
        centred = impulses - 1 / size  # a frame without its mean, for each sample of it
        previous = torch.cat([centred[:, :1], centred[:, :-1]], dim=1)  # the first sample is its own
        emphasised = centred - spectrum.preemphasis * previous
        transformed = torch.fft.rfft(emphasised * window, n=spectrum.fft_size)  # (size, F)
        kernels = torch.cat([transformed.real, transformed.imag], dim=1).T
        self.register_buffer("kernels", kernels[:, None].float())

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        parts = conv1d(waveforms[:, None], self.kernels, stride=self.hop)
        real, imaginary = parts.chunk(2, dim=1)
        return (real.square() + imaginary.square()).transpose(1, 2)

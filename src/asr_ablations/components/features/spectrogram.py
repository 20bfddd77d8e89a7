"""Frames of waveforms, their power spectra, and the log power spectrogram of DeepSpeech2 (Ambroszczyk2019 §1.1).

Frames and spectra are the same as in Kaldi with dither 0 (Povey et al. 2011; feat/feature-window.cc). Samples after the
last whole frame are ignored. Baunsgaard2020 §2.1 computes filter banks and cepstra from such frames.
"""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from asr_ablations import SAMPLE_RATE
from asr_ablations.tools.checks import is_number, switch

PREEMPHASIS = 0.97
SHORTEST, LONGEST = 2, SAMPLE_RATE
"""Minimum and maximum of window and hop in samples. The maximum is one second."""
POVEY = "povey"
TAPERS: dict[str, Callable[[int], torch.Tensor]] = {
    POVEY: lambda size: torch.hann_window(size, periodic=False, dtype=torch.float64).pow(0.85),
    "hann": partial(torch.hann_window, periodic=False, dtype=torch.float64),
    "hamming": partial(torch.hamming_window, periodic=False, dtype=torch.float64),
    "blackman": partial(torch.blackman_window, periodic=False, dtype=torch.float64),
    "rectangular": partial(torch.ones, dtype=torch.float64),
}
"""Kaldi's window functions by name. Each one returns a window of a given size in samples."""


class Spectrogram(nn.Module):
    """Converts waveforms (B, S) and lengths (B,) in samples to log power (B, T, F) and lengths (B,) in frames.

    window and hop are in seconds. F = window · 16000 / 2 + 1, for example 161 bins for 20 ms. preemphasis and taper are
    the same as in PowerSpectrum. If `variance` is true, the later normalisation of an utterance not only subtracts each
    bin's mean, but also divides the bin by its standard deviation.
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


def to_samples(window: float, hop: float) -> tuple[int, int]:
    """Convert window and hop from seconds to samples.

    Raises ValueError if `window` or `hop` is out of range, or if `hop` exceeds `window`.
    """
    for name, seconds in (("window", window), ("hop", hop)):
        if not (is_number(seconds) and SHORTEST <= round(seconds * SAMPLE_RATE) <= LONGEST):
            bounds = f"{SHORTEST / SAMPLE_RATE:g} to {LONGEST / SAMPLE_RATE:g}"
            raise ValueError(f"{name}={seconds}: expected seconds from {bounds}")
    if hop > window:
        raise ValueError(f"hop={hop}: expected at most window={window}, to cover all samples")
    return round(window * SAMPLE_RATE), round(hop * SAMPLE_RATE)


class PowerSpectrum(nn.Module):
    """Converts waveforms (B, S) to power spectra (B, T, F) with F = fft_size / 2 + 1.

    - window, hop: frame length and hop size in samples
    - preemphasis: share of the previous sample that is subtracted from each sample, from 0 to 1
    - taper: name of the window function, a key of TAPERS

    Kaldi subtracts each frame's mean, then applies preemphasis and the window. These steps are linear, so this class
    applies preemphasis to the whole waveform, and then subtracts the preemphasised mean. It needs two passes over the
    frames instead of six, and the passes take most of the time. Raises ValueError for an invalid preemphasis or taper.
    """

    window: torch.Tensor

    def __init__(self, window: int, hop: int, fft_size: int, *, preemphasis: float, taper: str) -> None:
        super().__init__()
        if not 0 <= preemphasis <= 1:
            raise ValueError(f"preemphasis={preemphasis}: expected a number from 0 to 1")
        if taper not in TAPERS:
            raise ValueError(f"taper={taper}: expected one of {', '.join(TAPERS)}")
        self.window_size, self.hop, self.fft_size, self.preemphasis = window, hop, fft_size, preemphasis
        shape = TAPERS[taper](window)
        self.starts_at_zero = float(shape[0]) == 0
        self.register_buffer("window", shape.float(), persistent=False)

    def frames(self, lengths: torch.Tensor) -> torch.Tensor:
        """Return the number of whole frames (B,) in waveforms of `lengths` (B,) samples."""
        return ((lengths - self.window_size).div(self.hop, rounding_mode="floor") + 1).clamp(min=0)

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        if waveforms.shape[-1] < self.window_size:
            return waveforms.new_zeros(len(waveforms), 0, self.fft_size // 2 + 1)
        previous = nn.functional.pad(waveforms[:, :-1], (1, 0))
        emphasised = waveforms - self.preemphasis * previous
        level = (1 - self.preemphasis) * self._means(waveforms)
        frames = waveforms.new_zeros(*level.shape, self.fft_size)
        inside = frames[..., : self.window_size]
        torch.sub(emphasised.unfold(-1, self.window_size, self.hop), level[..., None], out=inside)
        if not self.starts_at_zero:  # Kaldi uses a frame's first sample as its own predecessor
            starts = self.hop * torch.arange(level.shape[1], device=waveforms.device)
            inside[..., 0] = (1 - self.preemphasis) * waveforms[:, starts] - level
        inside.mul_(self.window)
        transform = torch.fft.rfft if frames.device.type == "cpu" else transform_in_few_shapes
        spectrum = torch.view_as_real(transform(frames, n=self.fft_size))
        if spectrum.device.type == "cpu":  # on a CPU, the sum below would take longer than the transform
            return torch.addcmul(spectrum[..., 0].square(), spectrum[..., 1], spectrum[..., 1])
        return spectrum.square().sum(dim=-1)

    def _means(self, waveforms: torch.Tensor) -> torch.Tensor:
        """Return the mean sample (B, T) of each frame, from sums over blocks whose size divides both window and hop."""
        part = math.gcd(self.window_size, self.hop)
        sums = waveforms[:, : waveforms.shape[1] // part * part].unflatten(1, (-1, part)).sum(dim=-1)
        return sums.unfold(1, self.window_size // part, self.hop // part).sum(dim=-1) / self.window_size


def transform_in_few_shapes(frames: torch.Tensor, n: int) -> torch.Tensor:
    """Compute spectra (B, T, n / 2 + 1) of frames (B, T, S), with only a few different FFT shapes.

    cuFFT creates a plan for every shape, which costs time and device memory, and torch keeps up to 4,096 plans. The
    number of frames is therefore rounded up, by at most one eighth.
    """
    batch, count, size = frames.shape
    rows = round_up(batch * count)
    padded = frames.new_zeros(rows, size)
    padded[: batch * count] = frames.reshape(-1, size)
    return torch.fft.rfft(padded, n=n)[: batch * count].view(batch, count, -1)


def round_up(count: int) -> int:
    """Round a count up to one of eight values between consecutive powers of 2. Zero stays zero."""
    step = max(1, (1 << count.bit_length() - 1) // 8) if count else 1
    return -(-count // step) * step

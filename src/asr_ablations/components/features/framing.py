"""Kaldi's framing of waveforms, in batches: no frame reaches past the samples, so padding never enters one.

Povey et al. 2011 (Kaldi, feat/feature-window.cc), dither 0: whole frames only, mean removed, pre-emphasis 0.97,
Povey window. Ambroszczyk2019 §1.1 uses spectrograms, Baunsgaard2020 §2.1 filter banks and cepstra of the same frames.
"""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from asr_ablations import SAMPLE_RATE
from asr_ablations.tools.checks import is_number

PREEMPHASIS = 0.97
SHORTEST, LONGEST = 2, SAMPLE_RATE
"""Samples of a window: a second."""
POVEY = "povey"
TAPERS: dict[str, Callable[[int], torch.Tensor]] = {
    POVEY: lambda size: torch.hann_window(size, periodic=False, dtype=torch.float64).pow(0.85),
    "hann": partial(torch.hann_window, periodic=False, dtype=torch.float64),
    "hamming": partial(torch.hamming_window, periodic=False, dtype=torch.float64),
    "blackman": partial(torch.blackman_window, periodic=False, dtype=torch.float64),
    "rectangular": partial(torch.ones, dtype=torch.float64),
}
"""Kaldi's windows (feat/feature-window.cc) by size; only the Povey window is its own."""


def in_samples(window: float, hop: float) -> tuple[int, int]:
    """Window and hop from seconds to samples. Raises ValueError for what is too short or too long, and for a hop beyond
    the window, which would leave samples out.
    """
    for name, seconds in (("window", window), ("hop", hop)):
        if not (is_number(seconds) and SHORTEST <= round(seconds * SAMPLE_RATE) <= LONGEST):
            bounds = f"{SHORTEST / SAMPLE_RATE:g} to {LONGEST / SAMPLE_RATE:g}"
            raise ValueError(f"{name}={seconds}: expected seconds from {bounds}")
    if hop > window:
        raise ValueError(f"hop={hop}: expected at most window={window}, so that no sample is left out")
    return round(window * SAMPLE_RATE), round(hop * SAMPLE_RATE)


class PowerSpectrum(nn.Module):
    """Waveforms (B, S) → power spectrum (B, T, F = fft_size / 2 + 1); `window` and `hop` in samples.

    preemphasis: the share of the previous sample that is subtracted, from 0 to 1; taper: one of TAPERS. Raises
    ValueError for others.

    Kaldi removes the mean of each frame, then emphasises, then windows. All of it is linear: so the emphasis is done
    once for the waveform, and what it leaves of the mean is removed. That takes two passes over the frames instead of
    six, which is most of the time.
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
        self.begins_with_nothing = float(shape[0]) == 0
        self.register_buffer("window", shape.float(), persistent=False)

    def frames(self, lengths: torch.Tensor) -> torch.Tensor:
        """Whole frames (B,) in waveforms of `lengths` (B,) samples."""
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
        if not self.begins_with_nothing:  # the first sample of a frame has no previous one, for Kaldi
            starts = self.hop * torch.arange(level.shape[1], device=waveforms.device)
            inside[..., 0] = (1 - self.preemphasis) * waveforms[:, starts] - level
        inside.mul_(self.window)
        transform = torch.fft.rfft if frames.device.type == "cpu" else in_few_shapes
        spectrum = torch.view_as_real(transform(frames, n=self.fft_size))
        if spectrum.device.type == "cpu":  # there a sum over two numbers takes longer than the transform
            return torch.addcmul(spectrum[..., 0].square(), spectrum[..., 1], spectrum[..., 1])
        return spectrum.square().sum(dim=-1)

    def _means(self, waveforms: torch.Tensor) -> torch.Tensor:
        """The mean (B, T) of the samples of each frame, from sums of parts that windows and hops are made of."""
        part = math.gcd(self.window_size, self.hop)
        sums = waveforms[:, : waveforms.shape[1] // part * part].unflatten(1, (-1, part)).sum(dim=-1)
        return sums.unfold(1, self.window_size // part, self.hop // part).sum(dim=-1) / self.window_size


def in_few_shapes(frames: torch.Tensor, n: int) -> torch.Tensor:
    """The transforms (B, T, n / 2 + 1) of frames (B, T, S), computed for a few numbers of frames only.

    cuFFT makes a plan for every shape, which takes time and memory on the device, and torch keeps 4,096 of them. The
    numbers of frames are rounded up by an eighth at most: eight between a number and its double.
    """
    batch, count, size = frames.shape
    rows = rounded_up(batch * count)
    padded = frames.new_zeros(rows, size)
    padded[: batch * count] = frames.reshape(-1, size)
    return torch.fft.rfft(padded, n=n)[: batch * count].view(batch, count, -1)


def rounded_up(count: int) -> int:
    """The next multiple of an eighth of the largest power of 2 that is not above `count`; 0 for 0."""
    step = max(1, (1 << count.bit_length() - 1) // 8) if count else 1
    return -(-count // step) * step

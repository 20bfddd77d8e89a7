"""A narrow-band telephone line: 8 kHz sampling rate, band-pass filter, and logarithmic quantisation."""

import numpy as np
from scipy.signal import butter, resample_poly, sosfilt

from asr_ablations import SAMPLE_RATE
from asr_ablations.tools.checks import number, whole
from asr_verdicts.errors import choices

RATE = 8000
ORDER = 4
"""Order of the band-pass filter, whose response falls by 24 dB per octave on both sides of the band."""


class Telephone:
    """Resamples to 8 kHz, applies a band-pass filter, quantises with the µ-law of G.711, and resamples to 16 kHz.

    - low, high: limits of the pass band in Hz, below 4000
    - levels: number of quantisation levels, 256 in G.711
    - mu: strength of the logarithmic compression, 255 in G.711

    Raises UsageError for values out of range.
    """

    changes = True

    def __init__(self, *, low: float, high: float, levels: int, mu: float) -> None:
        number("condition.high", high, above=0, below=RATE / 2)
        if number("condition.low", low, above=0) >= high:
            raise choices("condition.low", low, f"less than condition.high={high:g}")
        self.band = butter(ORDER, (low, high), "bandpass", fs=RATE, output="sos")
        self.levels = whole("condition.levels", levels, 2, 65536)
        self.mu = number("condition.mu", mu, above=0)

    def __call__(self, samples: np.ndarray, id_: str, rng: np.random.Generator) -> np.ndarray:
        if not len(samples):
            return samples
        factor = SAMPLE_RATE // RATE
        narrow = sosfilt(self.band, resample_poly(samples / 32768, 1, factor)).clip(-1, 1)
        compressed = np.sign(narrow) * np.log1p(self.mu * np.abs(narrow)) / np.log1p(self.mu)
        step = 2 / (self.levels - 1)
        rounded = (np.round((compressed + 1) / step) * step - 1).clip(-1, 1)
        expanded = np.sign(rounded) * np.expm1(np.abs(rounded) * np.log1p(self.mu)) / self.mu
        heard = resample_poly(expanded, factor, 1)[: len(samples)] * 32768
        return heard.round().clip(-32768, 32767).astype(np.int16)

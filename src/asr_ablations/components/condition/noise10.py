"""Generated noise at a fixed signal-to-noise ratio."""

import numpy as np

from asr_ablations.data.noises import add_noise
from asr_ablations.tools.checks import number


class GeneratedNoise:
    """Adds stationary Gaussian noise whose power falls with frequency f as 1 / f^exponent.

    snr: signal-to-noise ratio in dB over the whole utterance. Raises UsageError for values out of range.
    """

    changes = True

    def __init__(self, *, snr: float, exponent: float) -> None:
        self.snr = number("condition.snr", snr)
        self.exponent = number("condition.exponent", exponent, least=0, most=4)

    def __call__(self, samples: np.ndarray, id_: str, rng: np.random.Generator) -> np.ndarray:
        if not len(samples):
            return samples
        spectrum = np.fft.rfft(rng.standard_normal(len(samples)))
        bins = np.maximum(1, np.arange(len(spectrum)))  # avoids division by 0 at 0 Hz
        noise = np.fft.irfft(spectrum * bins ** (-self.exponent / 2), len(samples))
        return add_noise(samples, noise, self.snr)

"""Speed perturbation: plays waveforms faster or slower, which also changes the pitch (Ko et al. 2015)."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from scipy.signal import resample_poly

from asr_ablations.components.augment.none import NoAugmentation
from asr_ablations.tools.checks import is_number
from asr_ablations.tools.random_streams import uniforms


class Speed(NoAugmentation):
    """Multiplies the speed of each waveform by a factor that is sampled uniformly from `factors`.

    The factor depends only on seed, epoch and utterance id. The dataset keeps the original waveform if the result would
    be too short for CTC. Raises ValueError unless all factors are from 0.25 to 4.
    """

    changes_waveforms = True

    def __init__(self, *, factors: Sequence[float]) -> None:
        if not factors or not all(is_number(factor) and 0.25 <= factor <= 4 for factor in factors):
            raise ValueError(f"factors={factors}: expected one or more speed factors from 0.25 to 4")
        self.factors = [Fraction(factor).limit_denominator(100) for factor in factors]

    def waveform(self, samples: np.ndarray, id_: str, seed: int, epoch: int) -> np.ndarray:
        (draw,) = uniforms(1, seed, "speed", epoch, id_)
        factor = self.factors[int(draw * len(self.factors))]
        if factor == 1 or not len(samples):
            return samples
        # scipy, unlike torch, gives bit-identical results with any number of threads
        resampled = resample_poly(samples.astype(np.float32), factor.denominator, factor.numerator)
        return resampled.round().clip(-32768, 32767).astype(np.int16)

"""Speed perturbation: plays waveforms faster or slower, which also changes the pitch (Ko et al. 2015)."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from scipy.signal import resample_poly

from asr_ablations.components.augment.none import NoAugmentation
from asr_ablations.tools.checks import is_number
from asr_ablations.tools.random_streams import uniforms


class Speed(NoAugmentation):
    """Multiplies the speed of each waveform by one of `factors`, which are equally likely.

    The choice depends only on seed, epoch and utterance id. An utterance that would become too short for CTC keeps its
    speed in that epoch. Raises ValueError for factors outside 0.25 to 4.
    """

    changes_waveforms = True

    def __init__(self, *, factors: Sequence[float]) -> None:
        if not factors or not all(is_number(factor) and 0.25 <= factor <= 4 for factor in factors):
            raise ValueError(f"factors={factors}: expected numbers from 0.25 to 4, the speeds to draw from")
        self.factors = [Fraction(factor).limit_denominator(100) for factor in factors]

    def waveform(self, samples: np.ndarray, id_: str, seed: int, epoch: int) -> np.ndarray:
        (draw,) = uniforms(1, seed, "speed", epoch, id_)
        factor = self.factors[int(draw * len(self.factors))]
        if factor == 1 or not len(samples):
            return samples
        # scipy gives the same bits with one thread and with several; torch does not
        resampled = resample_poly(samples.astype(np.float32), factor.denominator, factor.numerator)
        return resampled.round().clip(-32768, 32767).astype(np.int16)

"""Speed perturbation: the waveform played faster or slower, pitch and all (Ko et al. 2015)."""

from collections.abc import Sequence
from math import gcd

import numpy as np
import torch
from torchaudio.transforms import Resample

from asr_ablations import SAMPLE_RATE
from asr_ablations.augment.none import NoAugmentation
from asr_ablations.seeds import uniforms


class Speed(NoAugmentation):
    """Waveforms played at one of `factors` times their speed, each as likely, drawn from (seed, epoch, utterance id).

    An utterance that would become too short for CTC keeps its own speed in that epoch.
    """

    changes_waveforms = True

    def __init__(self, *, factors: Sequence[float]) -> None:
        if not factors or not all(0.5 <= factor <= 2 for factor in factors):
            raise ValueError(f"factors={factors}: expected numbers from 0.5 to 2, the speeds to draw from")
        self.resamplers = [_resampler(factor) for factor in factors]

    def waveform(self, samples: np.ndarray, id_: str, seed: int, epoch: int) -> np.ndarray:
        (draw,) = uniforms(1, seed, "speed", epoch, id_)
        resampler = self.resamplers[int(draw * len(self.resamplers))]
        if resampler is None or not len(samples):
            return samples
        resampled = resampler(torch.from_numpy(samples.astype(np.float32)))
        return resampled.round_().clamp_(-32768, 32767).to(torch.int16).numpy()


def _resampler(factor: float) -> Resample | None:
    """What makes 16 kHz of the samples as if they had been taken at `factor` times 16 kHz, in whole percents."""
    rate = round(factor * 100) * SAMPLE_RATE // 100
    if rate == SAMPLE_RATE:
        return None
    common = gcd(rate, SAMPLE_RATE)
    return Resample(rate // common, SAMPLE_RATE // common)

"""Reverberation in simulated rooms."""

import numpy as np

from asr_ablations.components.augment.none import NoAugmentation
from asr_ablations.data.rooms import LONGEST_DECAY, reverberate, simulate_response
from asr_ablations.tools.checks import number
from asr_ablations.tools.random_streams import generator, uniforms
from asr_verdicts.errors import choices


class Reverb(NoAugmentation):
    """Adds reverberation to a random share of the waveforms, each in a different simulated room.

    - share: probability that an utterance is reverberated in an epoch, from 0 to 1
    - shortest, longest: range of the reverberation time T60 in seconds
    - lowest, highest: range of the direct-to-reverberant energy ratio in dB

    The random choices depend only on seed, epoch and utterance id. Raises UsageError for values out of range.
    """

    changes_waveforms = True

    def __init__(self, *, share: float, shortest: float, longest: float, lowest: float, highest: float) -> None:
        number("augment.share", share, least=0, most=1)
        for key, seconds in {"shortest": shortest, "longest": longest}.items():
            number(f"augment.{key}", seconds, above=0, most=LONGEST_DECAY)
        for key, low, high in (("shortest", shortest, longest), ("lowest", lowest, highest)):
            if number(f"augment.{key}", low) > number(f"augment.{key}", high):
                raise choices(f"augment.{key}", low, f"at most {high:g}, the upper end of the range")
        self.share, self.decays, self.ratios = share, (shortest, longest), (lowest, highest)

    def waveform(self, samples: np.ndarray, id_: str, seed: int, epoch: int) -> np.ndarray:
        chosen, *places = uniforms(3, seed, "reverb", epoch, id_)
        if chosen >= self.share:
            return samples
        decay, ratio = (
            low + place * (high - low) for place, (low, high) in zip(places, (self.decays, self.ratios), strict=True)
        )
        rng = generator(seed, "room", epoch, id_)
        return reverberate(samples, simulate_response(decay, ratio, rng))

"""Reverberation of a simulated room."""

import numpy as np

from asr_ablations.data.rooms import LONGEST_DECAY, reverberate, simulate_response
from asr_ablations.tools.checks import number


class Reverb:
    """Adds a simulated room's reverberation to each utterance. Only the random reflections differ between utterances.

    - decay: reverberation time T60 in seconds
    - direct_ratio: ratio of direct to reverberant energy in dB

    Raises UsageError for values out of range.
    """

    changes = True

    def __init__(self, *, decay: float, direct_ratio: float) -> None:
        self.decay = number("condition.decay", decay, above=0, most=LONGEST_DECAY)
        self.direct_ratio = number("condition.direct_ratio", direct_ratio)

    def __call__(self, samples: np.ndarray, id_: str, rng: np.random.Generator) -> np.ndarray:
        return reverberate(samples, simulate_response(self.decay, self.direct_ratio, rng))

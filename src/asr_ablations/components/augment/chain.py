"""Several augmentations, one after another."""

from collections.abc import Sequence

import numpy as np
import torch

from asr_ablations.components.augment.none import NoAugmentation


class Chain(NoAugmentation):
    """Each of `steps` on what the one before returned: those of waveforms first, then those of features."""

    def __init__(self, *, steps: Sequence[NoAugmentation]) -> None:
        self.steps = steps
        self.changes_waveforms = any(step.changes_waveforms for step in steps)

    def waveform(self, samples: np.ndarray, id_: str, seed: int, epoch: int) -> np.ndarray:
        for step in self.steps:
            samples = step.waveform(samples, id_, seed, epoch)
        return samples

    def __call__(
        self, features: torch.Tensor, lengths: torch.Tensor, ids: list[str], seed: int, epoch: int
    ) -> torch.Tensor:
        for step in self.steps:
            features = step(features, lengths, ids, seed, epoch)
        return features

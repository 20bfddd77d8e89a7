"""Several augmentations, applied one after another."""

from collections.abc import Sequence

import numpy as np
import torch

from asr_ablations.components.augment.none import NoAugmentation
from asr_ablations.data.batch import Augmentation


class Chain(NoAugmentation):
    """Applies the augmentations in `steps` in order, first to the waveform and later to the features."""

    def __init__(self, *, steps: Sequence[Augmentation]) -> None:
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

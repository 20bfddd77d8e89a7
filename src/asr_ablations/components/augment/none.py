"""No augmentation."""

import numpy as np
import torch


class NoAugmentation:
    """Leaves waveforms and features unchanged. Augmentations inherit from this class and override its methods."""

    changes_waveforms = False

    def waveform(self, samples: np.ndarray, id_: str, seed: int, epoch: int) -> np.ndarray:
        return samples

    def __call__(
        self, features: torch.Tensor, lengths: torch.Tensor, ids: list[str], seed: int, epoch: int
    ) -> torch.Tensor:
        return features

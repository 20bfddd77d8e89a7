"""No augmentation, and what every other one builds upon."""

import numpy as np
import torch


class NoAugmentation:
    """Waveforms and features as they are. An augmentation replaces one of the two methods, whatever it draws from
    (seed, epoch, utterance id); it is never called in validation or test.
    """

    changes_waveforms = False

    def waveform(self, samples: np.ndarray, id_: str, seed: int, epoch: int) -> np.ndarray:
        """int16 samples (S,) at 16 kHz → another int16 (S',), in the process that reads: one utterance alone."""
        return samples

    def __call__(
        self, features: torch.Tensor, lengths: torch.Tensor, ids: list[str], seed: int, epoch: int
    ) -> torch.Tensor:
        """Normalised features (B, T, F) → the same shape, on the model's device; lengths (B,) in frames on the CPU."""
        return features

"""Vocal tract length perturbation: stretches or compresses the frequency axis (after Jaitly & Hinton 2013)."""

import numpy as np
import torch

from asr_ablations.components.augment.none import NoAugmentation
from asr_ablations.tools.random_streams import uniforms


class FrequencyWarp(NoAugmentation):
    """Rescales the frequency axis of features (B, T, F) by a random factor from 1 - most to 1 + most.

    Bin f of the output is interpolated from the input bins around position f · factor. The factor depends only on seed,
    epoch and utterance id. Raises ValueError unless 0 ≤ most < 1.
    """

    def __init__(self, *, most: float) -> None:
        if not 0 <= most < 1:
            raise ValueError(f"most={most}: expected 0 to below 1")
        self.most = most

    def __call__(
        self, features: torch.Tensor, lengths: torch.Tensor, ids: list[str], seed: int, epoch: int
    ) -> torch.Tensor:
        draws = np.concatenate([uniforms(1, seed, "frequency_warp", epoch, id_) for id_ in ids])
        factors = torch.from_numpy(1 + self.most * (2 * draws - 1)).float().to(features.device, non_blocking=True)
        bins = features.shape[2]
        bin_numbers = torch.arange(bins, device=features.device)
        read = (bin_numbers * factors[:, None]).clamp(max=bins - 1)
        # (B, F, F), one matrix of linear interpolation weights per utterance: one product warps the whole batch
        weights = (1 - (bin_numbers[None, :, None] - read[:, None, :]).abs()).clamp(min=0)
        return features @ weights

"""No augmentation."""

import torch


class NoAugmentation:
    """Features as they are."""

    def __call__(
        self, features: torch.Tensor, lengths: torch.Tensor, ids: list[str], seed: int, epoch: int
    ) -> torch.Tensor:
        return features

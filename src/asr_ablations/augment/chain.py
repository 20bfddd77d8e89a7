"""Several augmentations, one after another."""

from collections.abc import Callable, Sequence

import torch


class Chain:
    """Each of `steps` on what the one before returned."""

    def __init__(self, *, steps: Sequence[Callable[..., torch.Tensor]]) -> None:
        self.steps = steps

    def __call__(
        self, features: torch.Tensor, lengths: torch.Tensor, ids: list[str], seed: int, epoch: int
    ) -> torch.Tensor:
        for step in self.steps:
            features = step(features, lengths, ids, seed, epoch)
        return features

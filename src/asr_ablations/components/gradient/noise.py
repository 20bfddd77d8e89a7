"""Noise added to gradients (Neelakantan et al. 2015; Doetsch2016 §4.3)."""

from collections.abc import Sequence

import torch
from torch import nn

from asr_ablations.components.gradient.norm import ClipNorm
from asr_ablations.tools.random_streams import stream
from asr_ablations.training.contracts import Log


class Noise(ClipNorm):
    """Clips gradients like gradient=norm, then adds noise from N(0, variance / (1 + step) ** decay) to every entry.

    The noise depends only on seed and step, so it is the same on all ranks and in a resumed run. Raises ValueError if
    `variance` or `decay` is below 0.
    """

    def __init__(self, *, limit: float | None, variance: float, decay: float) -> None:
        super().__init__(limit=limit)
        if variance < 0 or decay < 0:
            raise ValueError(f"variance={variance}, decay={decay}: expected 0 or more")
        self.variance, self.decay = variance, decay

    def before_step(self, parameters: Sequence[nn.Parameter], *, step: int, seed: int, log: Log) -> None:
        super().before_step(parameters, step=step, seed=seed, log=log)
        deviation = (self.variance / (1 + step) ** self.decay) ** 0.5
        log("train/gradient_noise", deviation)
        gradients = [p.grad for p in parameters if p.grad is not None]
        generator = torch.Generator(gradients[0].device).manual_seed(stream(seed, "gradient", step))
        for gradient in gradients:
            noise = torch.randn(gradient.shape, generator=generator, device=gradient.device, dtype=gradient.dtype)
            gradient.add_(noise, alpha=deviation)

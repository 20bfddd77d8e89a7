"""Noise on the gradient (Neelakantan et al. 2015; Doetsch2016 §4.3)."""

from collections.abc import Sequence

import torch
from torch import nn

from asr_ablations.components.gradient.norm import check_limit, clip_to_norm
from asr_ablations.tools.random_streams import stream
from asr_ablations.training.contracts import GradientTreatment, Log


class Noise(GradientTreatment):
    """Adds N(0, variance / (1 + step) ** decay) to every entry, after clipping by norm. The noise depends only on
    (seed, step), so ranks and resumed runs agree. Raises ValueError for a variance or decay below 0.
    """

    def __init__(self, *, limit: float | None, variance: float, decay: float) -> None:
        check_limit(limit)
        if variance < 0 or decay < 0:
            raise ValueError(f"variance={variance}, decay={decay}: expected 0 or more")
        self.limit, self.variance, self.decay = limit, variance, decay

    def before_step(self, parameters: Sequence[nn.Parameter], *, step: int, seed: int, log: Log) -> None:
        clip_to_norm(parameters, self.limit, log)
        deviation = (self.variance / (1 + step) ** self.decay) ** 0.5
        log("train/gradient_noise", deviation)
        gradients = [p.grad for p in parameters if p.grad is not None]
        generator = torch.Generator(gradients[0].device).manual_seed(stream(seed, "gradient", step))
        for gradient in gradients:
            noise = torch.randn(gradient.shape, generator=generator, device=gradient.device, dtype=gradient.dtype)
            gradient.add_(noise, alpha=deviation)

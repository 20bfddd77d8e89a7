"""CTC with label smoothing (Szegedy et al. 2016)."""

import math

import torch

from asr_ablations.components.loss.ctc import CTC
from asr_ablations.data.batch import Batch
from asr_ablations.tools.checks import number
from asr_ablations.tools.masks import valid_frames


class SmoothedCTC(CTC):
    """Computes (1 - smoothing) · CTC + smoothing · KL in nats, where KL(uniform ‖ outputs) is summed over frames.

    Without gradients, as in validation, the result is the CTC loss alone, to allow comparison with other losses.
    reduction: the same as in CTC. Raises UsageError unless 0 < smoothing < 1.
    """

    def __init__(self, *, reduction: str, smoothing: float) -> None:
        super().__init__(reduction=reduction)
        self.smoothing = number("loss.smoothing", smoothing, above=0, below=1)

    def nats(self, log_probs: torch.Tensor, lengths: torch.Tensor, batch: Batch) -> torch.Tensor:
        nats = super().nats(log_probs, lengths, batch)
        if not log_probs.requires_grad:
            return nats
        valid = valid_frames(lengths, log_probs.shape[1], log_probs.device)
        divergence = -math.log(log_probs.shape[2]) - log_probs.mean(dim=2)  # (B, T)
        return (1 - self.smoothing) * nats + self.smoothing * divergence.masked_fill(~valid, 0.0).sum(dim=1)

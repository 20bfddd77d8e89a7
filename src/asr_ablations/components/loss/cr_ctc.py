"""CTC with consistency between two augmented views of an utterance (CR-CTC, Yao et al. 2025)."""

import torch

from asr_ablations.components.loss.ctc import CTC
from asr_ablations.data.batch import Batch
from asr_ablations.tools.checks import number
from asr_ablations.tools.masks import valid_frames


class ConsistentCTC(CTC):
    """Computes CTC + scale · KL for each view in nats, where KL(other view ‖ this view) is summed over frames.

    The other view is the target, through which no gradient flows. The mean over both views is the loss in the paper.
    For a batch with a single view, as in validation, the loss is the CTC loss. reduction: the same as in CTC. Raises
    UsageError if `scale` is not above 0.
    """

    views = 2

    def __init__(self, *, reduction: str, scale: float) -> None:
        super().__init__(reduction=reduction)
        self.scale = number("loss.scale", scale, above=0)

    def nats(self, log_probs: torch.Tensor, lengths: torch.Tensor, batch: Batch) -> torch.Tensor:
        nats = super().nats(log_probs, lengths, batch)
        if batch.views == 1:
            return nats
        target = log_probs.detach().roll(len(batch) // 2, dims=0)  # (B, T, V), outputs for the other view
        valid = valid_frames(lengths, log_probs.shape[1], log_probs.device)
        divergence = (target.exp() * (target - log_probs)).sum(dim=2).masked_fill(~valid, 0.0)
        return nats + self.scale * divergence.sum(dim=1)

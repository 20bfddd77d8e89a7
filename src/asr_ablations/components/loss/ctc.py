"""Connectionist temporal classification (Graves et al. 2006; Ambroszczyk2019 §1.3)."""

from collections.abc import Mapping

import torch
from torch.nn.functional import ctc_loss

from asr_ablations.components.loss.device_ctc import device_ctc, usable
from asr_ablations.components.loss.framewise import Reduction
from asr_ablations.data.batch import Batch
from asr_ablations.data.dataset import Speech
from asr_ablations.native import operations as native


class CTC:
    """Computes the loss in nats of log_probs (B, T, V) in nats with lengths (B,) in frames, for a batch.

    reduction: label, utterance or sum. Lengths are int64 on the CPU and log_probs float32, so that every batch on a CPU
    runs the same kernel: in training the native library's, otherwise torch's. CUDA has its own in device_ctc.py.
    """

    def __init__(self, *, reduction: str) -> None:
        self.reduction = Reduction(reduction, "label")

    def prepare(self, sets: Mapping[str, Speech], device: torch.device) -> None:
        """Do nothing: CTC only needs the transcripts."""

    def __call__(self, log_probs: torch.Tensor, lengths: torch.Tensor, batch: Batch) -> torch.Tensor:
        counts = batch.target_lengths
        if usable(log_probs.device.type):
            nats = device_ctc(log_probs, batch.targets, lengths, counts)
        elif log_probs.requires_grad and native.usable(log_probs):
            nats = native.ctc(log_probs, batch.targets, lengths, counts)
        else:
            nats = ctc_loss(log_probs.transpose(0, 1), batch.targets, lengths, counts, blank=0, reduction="none")
        return self.reduction(nats, batch.target_lengths)

    def weight(self, batch: Batch) -> int:
        """Return the weight of a batch in a mean over batches."""
        return self.reduction.weight(batch)

    def frame_rates(self, log_probs: torch.Tensor, lengths: torch.Tensor, batch: Batch) -> dict[str, torch.Tensor]:
        """Return no rates: CTC does not label single frames."""
        return {}

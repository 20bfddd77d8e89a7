"""Connectionist temporal classification (Graves et al. 2006; Ambroszczyk2019 §1.3)."""

from collections.abc import Mapping

import torch
from torch.nn.functional import ctc_loss

from asr_ablations.data.batch import Batch
from asr_ablations.data.dataset import Speech


class CTC:
    """(log_probs (B, T, V) in nats, lengths (B,), batch) → nats per label, the mean over utterances.

    Lengths are int64 on the CPU and log-probabilities float32, so that the same native kernel runs for every batch on
    every device.
    """

    def prepare(self, sets: Mapping[str, Speech], device: torch.device) -> None:
        """Do nothing: CTC needs no more than the transcripts."""

    def __call__(self, log_probs: torch.Tensor, lengths: torch.Tensor, batch: Batch) -> torch.Tensor:
        nats = ctc_loss(
            log_probs.transpose(0, 1), batch.targets, lengths, batch.target_lengths, blank=0, reduction="none"
        )
        return (nats / batch.target_lengths.clamp(min=1).to(nats.device, non_blocking=True)).mean()

    def frame_rates(self, log_probs: torch.Tensor, lengths: torch.Tensor, batch: Batch) -> dict[str, torch.Tensor]:
        """No rates: CTC has no label for a single frame."""
        return {}

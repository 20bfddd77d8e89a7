"""Connectionist temporal classification (Graves et al. 2006; Ambroszczyk2019 §1.3).

On a GPU, torch's CTC loss makes the host wait for the device. The operations in this file avoid the wait.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from torch import library
from torch.nn.functional import ctc_loss

from asr_ablations.components.loss.framewise import Reduction
from asr_ablations.data.batch import Batch
from asr_ablations.data.datamodule import Speech
from asr_ablations.native import operations as native
from asr_ablations.tools.matrix_products import exact_products, trusted


class CTC:
    """Computes the CTC loss of a batch in nats from log_probs (B, T, V) in nats and lengths (B,) in frames.

    reduction: label, utterance or sum; see Reduction. Lengths must be int64 on the CPU, and log_probs float32. In CPU
    training, the native library computes the loss if it is available. Otherwise, torch does.
    """

    def __init__(self, *, reduction: str) -> None:
        self.reduction = Reduction(reduction, "label")

    def prepare(self, sets: Mapping[str, Speech], device: torch.device) -> None:
        """Do nothing, because CTC needs only the transcripts in each batch."""

    def __call__(self, log_probs: torch.Tensor, lengths: torch.Tensor, batch: Batch) -> torch.Tensor:
        return self.reduction(self.nats(log_probs, lengths, batch), batch.target_lengths)

    def nats(self, log_probs: torch.Tensor, lengths: torch.Tensor, batch: Batch) -> torch.Tensor:
        """Compute the CTC loss (B,) of each utterance in nats."""
        counts = batch.target_lengths
        if usable(log_probs.device.type):
            return device_ctc(log_probs, batch.targets, lengths, counts)
        if log_probs.requires_grad and native.usable(log_probs):
            return native.ctc(log_probs, batch.targets, lengths, counts)
        return ctc_loss(log_probs.transpose(0, 1), batch.targets, lengths, counts, blank=0, reduction="none")

    def weight(self, batch: Batch) -> int:
        return self.reduction.weight(batch)

    def frame_rates(self, log_probs: torch.Tensor, lengths: torch.Tensor, batch: Batch) -> dict[str, torch.Tensor]:
        """Return an empty dict, because CTC does not label individual frames."""
        return {}


LIBRARY = library.Library("asr_ablations", "FRAGMENT")
# returns forward log-probabilities (B, T, S) of the states, and the loss (B,) in nats
LIBRARY.define("ctc_forward(Tensor log_probs, Tensor labels, Tensor lengths, Tensor counts) -> (Tensor, Tensor)")
# returns posterior probabilities (B, T, S) of the states given the labels, with 0 in padding frames
LIBRARY.define(
    "ctc_occupancy(Tensor log_probs, Tensor labels, Tensor lengths, Tensor counts, Tensor alphas, Tensor nats) "
    "-> Tensor"
)
LIBRARY.impl("ctc_forward", lambda x, labels, *_: (_empty_states(x, labels), x.new_empty(len(x))), "Meta")
LIBRARY.impl("ctc_occupancy", lambda x, labels, *_: _empty_states(x, labels), "Meta")
operations = torch.ops.asr_ablations


def _empty_states(log_probs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return log_probs.new_empty(*log_probs.shape[:2], labels.shape[1])


class DeviceCTC(torch.autograd.Function):
    """Computes losses (B,) in nats from log_probs (B, T, V), labels (B, S), frame counts (B,) and label counts (B,)."""

    @staticmethod
    def forward(
        ctx: Any, log_probs: torch.Tensor, labels: torch.Tensor, lengths: torch.Tensor, counts: torch.Tensor
    ) -> torch.Tensor:
        alphas, nats = operations.ctc_forward(log_probs, labels, lengths, counts)
        ctx.save_for_backward(log_probs, labels, lengths, counts, alphas, nats)
        return nats

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        log_probs, labels, *_ = ctx.saved_tensors
        probabilities = operations.ctc_occupancy(*ctx.saved_tensors)
        outputs = torch.arange(log_probs.shape[2], device=labels.device)
        # a matrix product adds up the states of each output in a fixed order
        share = (labels[..., None] == outputs) * -gradient[:, None, None]
        with exact_products():
            return torch.bmm(probabilities, share), None, None, None


def device_ctc(
    log_probs: torch.Tensor, targets: torch.Tensor, lengths: torch.Tensor, counts: torch.Tensor
) -> torch.Tensor:
    """Compute the CTC loss (B,) of each utterance in nats without waiting for the device.

    - targets: concatenated labels of all utterances, on the device
    - lengths, counts: numbers of frames (B,) and of labels (B,), on the CPU
    """
    most, device = int(counts.max()) if len(counts) else 0, log_probs.device
    labels = torch.zeros(len(counts), 2 * most + 1, dtype=torch.long, device=device)
    numbers = counts.to(device, non_blocking=True)
    if most:
        begins = (counts.cumsum(0) - counts).to(device, non_blocking=True)
        position = torch.arange(most, device=device)
        place = (begins[:, None] + position).clamp(max=len(targets) - 1)
        labels[:, 1::2] = targets.take(place) * (position < numbers[:, None])
    return DeviceCTC.apply(log_probs.contiguous(), labels, lengths.to(device, non_blocking=True), numbers)


@cache
def usable(device: str) -> bool:
    """Return whether a device type can use device_ctc. Only CUDA can, and only if it matches torch's CTC on a CPU."""
    return device == "cuda" and trusted(
        _load_kernels, LIBRARY, lambda: largest_difference(device), "using torch's CTC, which waits for the GPU"
    )


def _load_kernels() -> Mapping[str, Any]:
    from asr_ablations.components.loss.ctc_kernels import KERNELS

    return KERNELS


def largest_difference(device: str) -> float:
    """Return the largest difference in loss or gradient between device_ctc and torch's CTC on a CPU."""
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(4, 23, 6, generator=generator)
    lengths, counts = torch.tensor([23, 9, 4, 17]), torch.tensor([7, 4, 0, 1])
    targets = torch.tensor([1, 1, 2, 5, 5, 3, 1, 2, 3, 2, 3, 4])
    weights = torch.tensor([1.0, 2.0, 0.5, 3.0])
    results: list[torch.Tensor] = []
    for place in ("cpu", device):
        x = logits.to(place).requires_grad_()
        log_probs = x.log_softmax(2)
        if not results:
            nats = ctc_loss(log_probs.transpose(0, 1), targets, lengths, counts, blank=0, reduction="none")
        else:
            nats = device_ctc(log_probs, targets.to(place), lengths, counts)
        (gradient,) = torch.autograd.grad((nats * weights.to(place)).sum(), x)
        results.append(torch.cat([nats.detach().cpu(), gradient.cpu().flatten()]))
    return float((results[0] - results[1]).abs().max())

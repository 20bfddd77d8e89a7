"""CTC on a GPU, without a wait for it."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from torch.nn.functional import ctc_loss

from asr_ablations.components.loss.ctc_operations import LIBRARY
from asr_ablations.tools.float32 import exact_products
from asr_ablations.tools.own_kernels import trusted

operations = torch.ops.asr_ablations


class DeviceCTC(torch.autograd.Function):
    """(log_probs (B, T, V), labels (B, S), lengths (B,), counts (B,)) → nats (B,), as in ctc_operations.py."""

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
        # a product adds up the states of each output in a fixed order
        share = (labels[..., None] == outputs) * -gradient[:, None, None]
        with exact_products():
            return torch.bmm(probabilities, share), None, None, None


def device_ctc(
    log_probs: torch.Tensor, targets: torch.Tensor, lengths: torch.Tensor, counts: torch.Tensor
) -> torch.Tensor:
    """Nats (B,). targets: concatenated, on the device; lengths, counts: (B,) frames and labels, on the CPU."""
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
    """Whether this type of device takes this CTC: CUDA does, once it has given the numbers of torch's on a CPU."""
    return device == "cuda" and trusted(
        _kernels, LIBRARY, lambda: disagreement(device), "CTC is torch's own, which waits for the GPU"
    )


def _kernels() -> Mapping[str, Any]:
    from asr_ablations.components.loss.ctc_kernels import KERNELS

    return KERNELS


def disagreement(device: str) -> float:
    """The largest difference of losses and gradients from torch's on a CPU, over a small batch."""
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(4, 23, 6, generator=generator)
    lengths, counts = torch.tensor([23, 9, 4, 17]), torch.tensor([7, 4, 0, 1])
    targets = torch.tensor([1, 1, 2, 5, 5, 3, 1, 2, 3, 2, 3, 4])
    weights = torch.tensor([1.0, 2.0, 0.5, 3.0])
    results: list[torch.Tensor] = []
    for there in ("cpu", device):
        x = logits.to(there).requires_grad_()
        log_probs = x.log_softmax(2)
        if not results:
            nats = ctc_loss(log_probs.transpose(0, 1), targets, lengths, counts, blank=0, reduction="none")
        else:
            nats = device_ctc(log_probs, targets.to(there), lengths, counts)
        (gradient,) = torch.autograd.grad((nats * weights.to(there)).sum(), x)
        results.append(torch.cat([nats.detach().cpu(), gradient.cpu().flatten()]))
    return float((results[0] - results[1]).abs().max())

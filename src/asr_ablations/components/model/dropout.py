"""Dropout (Srivastava et al. 2014; Ambroszczyk2019 §2.3.2)."""

import torch
from torch import nn
from torch.nn.functional import dropout

from asr_ablations.native import operations as native
from asr_ablations.tools.checks import number


class Dropout(nn.Module):
    """Sets each number of x to 0 with probability `rate` and multiplies the others by 1 / (1 - rate), in training only.

    It is a module between layers and not an argument of torch's recurrent layers, which does nothing in a single layer.
    Masks come from torch's global generator of the device, which assembly seeds for dropout alone: with its state
    restored (torch.set_rng_state) the same masks follow. Raises UsageError for a rate outside 0 ≤ rate < 1.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = number("dropout", rate, least=0, below=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training and self.rate and x.device.type == "cpu":
            if native.usable(x):
                return native.dropout(x, self.rate)
            return x * kept(x, self.rate)
        return dropout(x, self.rate, self.training)


def kept(x: torch.Tensor, rate: float) -> torch.Tensor:
    """The factors of dropout on a CPU, (…) as x. torch's own mask there takes twice as long as this: a number
    is dropped where the 32 bits that are drawn for it are among the lowest `rate` of all.
    """
    words = torch.empty(-(-x.numel() // 2), dtype=torch.int64).random_(-(2**63), None)  # every 64 bits: two numbers
    bits = words.view(torch.int32)[: x.numel()].view(x.shape)
    lowest = min(round(rate * 2**32) - 2**31, 2**31 - 1)  # the largest there is, where a rate rounds to 1
    return (bits >= lowest).to(x.dtype).mul_(1 / (1 - rate))

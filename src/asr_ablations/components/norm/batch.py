"""Batch normalisation over valid frames only (Ioffe & Szegedy 2015; Ambroszczyk2019 §2.3.1)."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import nn

from asr_ablations.components.norm.fused import Normalise, operations, usable
from asr_ablations.native import operations as native
from asr_ablations.tools.checks import number
from asr_ablations.tools.masks import valid_frames


def local(sums: torch.Tensor) -> torch.Tensor:
    """Return the sums of this process alone."""
    return sums


def at_least(count: float | torch.Tensor, least: int) -> float | torch.Tensor:
    return count.clamp(min=least) if isinstance(count, torch.Tensor) else max(count, float(least))


class BatchNorm(nn.Module):
    """Normalises each channel of x (B, T, …, D) over all positions within lengths (B,); sets padding to 0.

    frame: the shape of a frame of x, (…, D). reduce: turns the sums (N,) of this process into the sums (N,) over all
    processes that share their statistics.
    """

    running_mean: torch.Tensor
    running_variance: torch.Tensor

    def __init__(
        self,
        frame: Sequence[int],
        *,
        momentum: float,
        epsilon: float,
        reduce: Callable[[torch.Tensor], torch.Tensor] = local,
    ) -> None:
        super().__init__()
        size = frame[-1]
        self.momentum = float(number("norm.momentum", momentum, above=0, most=1))
        self.epsilon = float(number("norm.epsilon", epsilon, least=0))
        self.reduce = reduce
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.register_buffer("running_mean", torch.zeros(size))
        self.register_buffer("running_variance", torch.ones(size))

    def forward(
        self, x: torch.Tensor, lengths: torch.Tensor, low: float = -math.inf, high: float = math.inf
    ) -> torch.Tensor:
        if not self.fuses(x):
            assert math.isinf(low), "only if it fuses"
            return self.normalise_masked(x, lengths)
        normalise = self.normalise_valid if x.device.type == "cpu" else self.normalise_fused
        return normalise(x, lengths, low, high)

    def normalise_masked(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Compute forward by plain operations, for any device and type, also in evaluation."""
        mask = valid_frames(lengths, x.shape[1], x.device).view(x.shape[:2] + (1,) * (x.dim() - 2))
        if not self.training:
            scale = self.weight * (self.running_variance + self.epsilon).rsqrt()
            return ((x.float() - self.running_mean) * scale + self.bias).to(x.dtype) * mask
        centred, variance = self._centre(x.float() * mask, mask, lengths.sum() * x[0, 0, ..., 0].numel())
        scale = self.weight * (variance + self.epsilon).rsqrt()
        return (centred * scale + self.bias * mask).to(x.dtype)

    def fuses(self, x: torch.Tensor) -> bool:
        """Return whether forward also clips to low..high in one operation, which it only does in training.

        On a CPU it also needs weights in float32 and unshared statistics.
        """
        if x.device.type == "cpu":
            return self.training and self.reduce is local and self.weight.dtype == torch.float32
        return self.training and usable(x.device.type)

    def normalise_valid(self, x: torch.Tensor, lengths: torch.Tensor, low: float, high: float) -> torch.Tensor:
        """Compute forward on a CPU in training, clipped to low..high, by the native library if it is available."""
        few = int(lengths.sum()) * x[0, 0, ..., 0].numel() < 2  # too few positions for a variance
        if few or not native.usable(values := x.float(), self.weight, self.bias):
            return self.normalise_masked(x, lengths).clamp(low, high)
        bounds: dict[str, float] = {"low": low, "high": high, "momentum": self.momentum, "epsilon": self.epsilon}
        running = self.running_mean, self.running_variance
        return native.batch_norm(values, lengths, self.weight, self.bias, running, **bounds).to(x.dtype)

    def normalise_fused(self, x: torch.Tensor, lengths: torch.Tensor, low: float, high: float) -> torch.Tensor:
        """Compute forward, clipped to low..high, which must enclose 0: on a GPU in 5 passes over x instead of 30."""
        inner = x[0, 0, ..., 0].numel()
        positions = float(lengths.sum()) * inner
        rows, on_device = x.reshape(-1, x.shape[-1]), lengths.to(x.device, non_blocking=True)
        with torch.no_grad():
            mean, squares = operations.norm_moments(rows, on_device, x.shape[1], inner).unbind()
            count: float | torch.Tensor = positions
            if self.reduce is not local:
                sums = self.reduce(torch.cat([mean * positions, mean.new_full((1,), positions)]))
                count, whole = sums[-1:], sums[:-1] / sums[-1:].clamp(min=1)
                squares = self.reduce(squares + positions * (mean - whole).square())
                mean = whole
            self._update_running(mean, squares, count)
            at_least_one = at_least(count, 1)
            variance = squares / at_least_one
        reduce = None if self.reduce is local else self.reduce
        fused = (x.shape[1], inner, self.epsilon, low, high)
        return Normalise.apply(
            rows, self.weight, self.bias, on_device, mean, variance, at_least_one, reduce, fused
        ).view(x.shape)

    def _update_running(self, mean: torch.Tensor, squares: torch.Tensor, count: float | torch.Tensor) -> None:
        momentum = self.momentum * (count > 0)  # no change without a valid frame
        self.running_mean.lerp_(mean, momentum)
        self.running_variance.lerp_(squares / at_least(count - 1, 1), momentum)

    def _centre(
        self, values: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return values (B, T, …, D) minus their mean, and their variance (D,); update the running statistics."""
        dimensions = tuple(range(values.dim() - 1))
        counted = positions.to(values, non_blocking=True)[None]
        sums, count = self.reduce(torch.cat([values.sum(dimensions), counted])).split([values.shape[-1], 1])
        mean = sums / count.clamp(min=1)
        centred = (values - mean) * mask
        squares = self.reduce(centred.square().sum(dimensions))
        with torch.no_grad():
            momentum = self.momentum * (count > 0)  # no change without a valid frame
            unbiased = squares / (count - 1).clamp(min=1)
            self.running_mean.copy_(self.running_mean.float().lerp(mean, momentum))
            self.running_variance.copy_(self.running_variance.float().lerp(unbiased, momentum))
        return centred, squares / count.clamp(min=1)

"""AdamW without a schedule: the weights are averaged instead of the rate lowered (Defazio et al. 2024, algorithm 1)."""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import pytorch_lightning as pl
import torch
from torch.optim import Optimizer

from asr_ablations.components.averaging.base import Averaging, Weights, weights_of
from asr_ablations.tools.checks import number, whole
from asr_ablations.training.task import task_of
from asr_verdicts.errors import UsageError

EPSILON = 1e-8
"""Value that is added to the root of the averaged squared gradients, as in torch's AdamW."""


class AverageOfOptimizer(Averaging):
    """Evaluates the average that ScheduleFreeAdamW keeps, with the running statistics from training at y."""

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        if getattr(trainer.strategy, "independent_workers", False):
            raise UsageError("optimizer=schedule_free: trainer=local_sgd would average only y; expected trainer=ddp")

    def averaged(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> Weights:
        """Return the average x of each parameter that has been trained, and all other tensors unchanged."""
        weights = weights_of(model := task_of(pl_module).model)
        if self._trained is None:  # otherwise, the model holds x, because a validation is running
            averages = [ScheduleFreeAdamW.average(trainer.optimizers[0], y) for y in model.parameters()]
            weights[: len(averages)] = averages
        return weights


class ScheduleFreeAdamW(Optimizer):
    """Takes AdamW's steps from z, and computes gradients at y = (1 - β₁) z + β₁ x, where x is the average of all z.

    The model's parameters are y, and evaluation uses x (AverageOfOptimizer). A z has the weight rate² in the average;
    the rate includes the warm-up, Adam's bias correction and a schedule, if there is one. Weight decay acts at y.

    The state of a parameter has z, `squares` (the average of squared gradients) and `step`: the number of steps and the
    sum of rate². Both are in one tensor of this name, because torch would convert any other to the parameter's dtype.
    """

    averaging = partial(AverageOfOptimizer, count=1)

    def __init__(
        self, parameters: Iterable[Any], *, lr: float, betas: Sequence[float], weight_decay: float, warm_up: int
    ) -> None:
        number("optimizer.lr", lr, least=0)
        for place, beta in enumerate(betas):
            number(f"optimizer.betas.{place}", beta, above=0, below=1)
        number("optimizer.weight_decay", weight_decay, least=0)
        whole("optimizer.warm_up", warm_up, 0)
        # torch keeps `step` in float32 and on the device if `capturable` is set
        fixed = {"betas": tuple(betas), "warm_up": warm_up, "capturable": True}
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay, **fixed})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update z, x and y of each parameter that has a gradient."""
        with torch.enable_grad():
            loss = None if closure is None else closure()
        for group in self.param_groups:
            for y in group["params"]:
                if y.grad is not None:
                    self._update(y, y.grad, group)
        return loss

    def _update(self, y: torch.Tensor, gradient: torch.Tensor, group: dict[str, Any]) -> None:
        state, (first, second) = self.state[y], group["betas"]
        if not state:
            state |= {"z": y.clone(), "squares": torch.zeros_like(y), "step": torch.zeros(2, device=y.device)}
        z, squares, (count, total) = state["z"], state["squares"], state["step"]
        count += 1
        rate = group["lr"] * (-torch.expm1(count * math.log(second))).sqrt()
        if group["warm_up"]:
            rate = rate * (count / group["warm_up"]).clamp(max=1)
        total += rate.square()
        share = torch.where(total > 0, rate.square() / total, 0.0)  # the rate may be 0
        squares.lerp_(gradient.square(), 1 - second)
        x = y.lerp(z, 1 - 1 / first)
        z -= rate * (gradient / (squares.sqrt() + EPSILON) + group["weight_decay"] * y)
        x.lerp_(z, share.to(x.dtype))
        y.copy_(z.lerp(x, first))

    @staticmethod
    def average(optimizer: Optimizer, y: torch.nn.Parameter) -> torch.Tensor:
        """Return the average x of a parameter y, or the parameter itself if it has not been trained."""
        state = optimizer.state.get(y)
        return y.detach().lerp(state["z"], 1 - 1 / optimizer.defaults["betas"][0]) if state else y.detach()

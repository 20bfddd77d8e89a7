"""Steps of the optimizer: fused where they can be, and with a scaled loss that no step waits for."""

import inspect
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import pytorch_lightning as pl
import torch
from torch import nn
from torch.amp.grad_scaler import OptState
from torch.optim import Adam, AdamW, Optimizer

from asr_ablations.training.contracts import Checkpoint, OptimizerFactory
from asr_ablations.training.gradient_accumulation import ends_update

FUSED = (Adam, AdamW)
"""Those that take the step of all weights in one pass, and on a GPU leave it out there. Not SGD, which cannot begin
the momentum of a weight that is trained later than others, nor Adagrad, which torch fuses on CPUs alone (torch 2.11).
"""
WAYS = ("fused", "foreach", "capturable", "differentiable")
"""Options that say how a step is computed, and not what."""


class DeviceScaler(torch.amp.GradScaler):
    """torch's scaler, which reads after each backward pass whether a gradient is no finite number: the host waits until
    the device has computed it. Here a fused optimizer leaves the step out by itself; with any other, weights and state
    get their values of before it back, bit for bit, of which there is a copy during the step.

    The first step of a weight is waited for: only the optimizer knows what its state begins with. What is counted on
    the host, as Adagrad counts steps for its lr_decay, counts those that are left out, as schedules do.
    """

    def __init__(self, device: str, **options: Any) -> None:
        super().__init__(device, **options)
        self._known: set[nn.Parameter] = set()

    def step(self, optimizer: Optimizer, *arguments: Any, **keywords: Any) -> float | None:
        """Take the optimizer's step unless a gradient has overflowed. Gradients must be unscaled already."""
        trained = {p for group in optimizer.param_groups for p in group["params"] if p.grad is not None}
        if self._enabled and not trained <= self._known:
            state = self._per_optimizer_states[id(optimizer)]
            if any(overflow.item() for overflow in state["found_inf_per_device"].values()):
                state["stage"] = OptState.STEPPED
                return None
            self._known |= trained
        return super().step(optimizer, *arguments, **keywords)

    def _maybe_opt_step(
        self, optimizer: Optimizer, optimizer_state: dict[str, Any], *arguments: Any, **keywords: Any
    ) -> float | None:
        """torch's hook for an optimizer that does not leave a step out by itself."""
        (overflow,) = optimizer_state["found_inf_per_device"].values()  # of the device that all weights are on
        before = {place: tensor.clone() for place, tensor in _changing(optimizer)}
        result = optimizer.step(*arguments, **keywords)
        for place, tensor in _changing(optimizer):
            if place in before:
                torch.where(overflow.bool(), before[place], tensor, out=tensor)
        return result


def _changing(optimizer: Optimizer) -> Iterator[tuple[tuple[nn.Parameter, str], torch.Tensor]]:
    """Tensors on the weights' device that a step changes, with places: weights with a gradient, and their state."""
    for group in optimizer.param_groups:
        for weights in group["params"]:
            if weights.grad is None:
                continue
            yield (weights, ""), weights.detach()
            for name, value in optimizer.state.get(weights, {}).items():
                if isinstance(value, torch.Tensor) and value.device == weights.device:
                    yield (weights, name), value


def optimizer_of(make: OptimizerFactory, parameters: Iterable[nn.Parameter], *, scaled: bool) -> Optimizer:
    """The optimizer, on a CPU fused where it can be, which takes a third of the time. For a scaled loss on a GPU it is
    fused as well, or else counts its steps on the device where torch can. A way that the config sets is kept, and so is
    its own when another device's checkpoint is loaded.
    """
    parameters = list(parameters)
    optimizer = partial(make, **_way(make, parameters[0].device.type, scaled=scaled))(parameters)
    optimizer.register_load_state_dict_pre_hook(_keep_way)
    return optimizer


def _way(make: OptimizerFactory, device: str, *, scaled: bool) -> dict[str, bool]:
    kind, given = getattr(make, "func", make), getattr(make, "keywords", {})
    if device != "cpu" and not scaled:
        return {}
    if kind in FUSED and not given.keys() & set(WAYS):
        return {"fused": True}
    can_count = "capturable" in inspect.signature(kind).parameters and not given.get("fused")
    return {"capturable": True} if device != "cpu" and can_count and "capturable" not in given else {}


def _keep_way(optimizer: Optimizer, state: Checkpoint) -> Checkpoint:
    """A hook before a checkpoint's state is loaded: put the optimizer's own ways into it."""
    own = [{way: group[way] for way in WAYS if way in group} for group in optimizer.param_groups]
    groups = [{**saved, **ways} for saved, ways in zip(state["param_groups"], own, strict=True)]
    return {**state, "param_groups": groups}


class LossScale(pl.Callback):
    """Logs train/loss_scale and train/overflow_share, the share of skipped steps, in each epoch in which a loss is
    scaled.
    """

    def __init__(self) -> None:
        self._before: torch.Tensor | None = None

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        if scaler is None or not ends_update(trainer, batch_idx):
            return
        scale = scaler._get_scale_async().clone()  # get_scale would wait for the device
        # the scale falls after an overflow and never otherwise; a resumed scaler has its own _init_scale
        before = torch.full_like(scale, scaler._init_scale) if self._before is None else self._before
        pl_module.log("train/overflow_share", (scale < before).float(), on_step=False, on_epoch=True, batch_size=1)
        pl_module.log("train/loss_scale", scale, on_step=False, on_epoch=True, batch_size=1)
        self._before = scale

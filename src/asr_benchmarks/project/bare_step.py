"""A training step without Lightning: features, loss, gradient, optimizer."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar, cast

import torch

from asr_ablations.data.batch import Batch
from asr_ablations.training.task import CTCTask
from asr_benchmarks.project.parts import Context
from asr_benchmarks.project.port import PortBatch

B = TypeVar("B", Batch, PortBatch)


def stepper(
    task: CTCTask,
    model: torch.nn.Module,
    precision: Context,
    features: Callable[[B], tuple[torch.Tensor, torch.Tensor]],
    scaler: torch.amp.GradScaler | None,
) -> Callable[[B], None]:
    """A function that makes a bare training step of `model` on a batch: features, loss, gradient, optimizer.

    features: batch → features (B, T, D) and their lengths (B,); loss and optimizer are the task's. scaler: of the loss,
    where the precision needs one.
    """
    parameters = list(model.parameters())
    optimizer = task.make_optimizer(parameters)
    weights = next(iter(parameters)).dtype

    def step(batch: B) -> None:
        with precision():
            x, lengths = features(batch)
            logits, lengths = model(x.to(weights), lengths)
            with torch.autocast(x.device.type, enabled=False):
                # the loss reads the targets, which the port's batches have, too
                loss = task.loss(logits.float().log_softmax(dim=-1), lengths, cast(Batch, batch))
        treat = partial(task.gradient.before_step, parameters, step=0, seed=0, log=lambda *_, **__: None)
        update(loss, optimizer, treat, scaler)

    return step


def update(
    loss: torch.Tensor,
    optimizer: torch.optim.Optimizer,
    treat: Callable[[], None],
    scaler: torch.amp.GradScaler | None,
) -> None:
    """The backward pass, `treat` for the gradients, and the optimizer's step: with a scaled loss as in a training."""
    optimizer.zero_grad()
    if scaler is None:
        loss.backward()
        treat()
        optimizer.step()
    else:
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        treat()
        scaler.step(optimizer)
        scaler.update()

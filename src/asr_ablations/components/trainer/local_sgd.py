"""Local SGD: independent workers whose weights are averaged now and then (papers/002 §4.1; Stich 2019)."""

from typing import Any

import pytorch_lightning as pl
import torch
from lightning_utilities import apply_to_collection
from pytorch_lightning.strategies import DDPStrategy
from torch import distributed
from torch.distributed.algorithms.model_averaging.utils import average_parameters

from asr_ablations.components.averaging.base import copy_into, weights_of
from asr_ablations.tools.errors import UsageError


class IndependentWorkers(DDPStrategy):
    """Ranks that share the process group, the data and the record, but no gradient."""

    independent_workers = True

    def configure_ddp(self) -> None:
        pass  # the model stays unwrapped: torch's wrapper is what averages gradients


class LocalSGD(pl.Callback):
    """After every `every` steps and after each epoch, all ranks take on the mean of their weights and running
    statistics. Each keeps its own optimizer state, as RETURNN's workers do. Raises ValueError for `every` below 1.
    """

    def __init__(self, *, every: int | None) -> None:
        if every is not None and not (isinstance(every, int) and every >= 1):
            raise ValueError(f"every={every}: expected a whole number, 1 or more, or null for once an epoch")
        self.every = every

    def strategy(self, leaves_weights_out: bool) -> DDPStrategy:
        """For several ranks; a parameter without a gradient hinders nobody here."""
        return IndependentWorkers()

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        pl_module.ranks_step_together = trainer.world_size == 1  # type: ignore[assignment]

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        due = self.every is not None and trainer.global_step % self.every == 0
        if trainer.world_size > 1 and (due or trainer.is_last_batch):
            weights = weights_of(pl_module.model)  # type: ignore[arg-type]
            # torch puts new storage under what it averages; cuDNN's recurrent weights must stay where they are
            mean = [t.clone() for t in weights]
            average_parameters(iter(mean), distributed.group.WORLD)  # type: ignore[arg-type]
            copy_into(pl_module.model, mean)  # type: ignore[arg-type]

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """The first rank writes the file: it gets the weights and optimizer states of all."""
        if trainer.world_size > 1:
            trained = [t.cpu() for t in weights_of(pl_module.model)]  # type: ignore[arg-type]
            optimizers = apply_to_collection(checkpoint["optimizer_states"], torch.Tensor, torch.Tensor.cpu)
            own = {"trained_weights": trained, "optimizer_states": optimizers}
            workers: list[Any] = [None] * trainer.world_size
            distributed.all_gather_object(workers, own)
            checkpoint["workers"] = workers

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        workers = checkpoint.get("workers", [])
        if len(workers) != trainer.world_size and max(len(workers), trainer.world_size) > 1:
            raise UsageError(f"the checkpoint is of {len(workers) or 1} independent workers, not {trainer.world_size}")
        if workers:
            checkpoint.update(workers[trainer.global_rank])  # the optimizer's state is read from it later
            copy_into(pl_module.model, checkpoint["trained_weights"])  # type: ignore[arg-type]

"""Local SGD: independent workers whose weights are averaged at intervals (Doetsch2016 §4.1; Stich 2019)."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytorch_lightning as pl
import torch
from lightning_utilities import apply_to_collection
from torch import distributed
from torch.distributed.algorithms.model_averaging.utils import average_parameters

from asr_ablations.components.averaging.base import copy_into, weights_of
from asr_ablations.tools.checks import whole
from asr_ablations.training.contracts import Checkpoint, ParallelTraining
from asr_ablations.training.ddp import UnhurriedRanks, gather_from_ranks
from asr_ablations.training.task import ends_update, task_of
from asr_verdicts.errors import UsageError


class IndependentWorkers(UnhurriedRanks):
    """A Lightning strategy whose ranks share a process group, the data and the run folder, but not gradients."""

    independent_workers = True

    def configure_ddp(self) -> None:
        """Leave the model unwrapped, because torch's wrapper would average gradients."""

    @contextmanager
    def block_backward_sync(self) -> Iterator[None]:
        """Do nothing, because gradients are never synchronised between ranks."""
        yield


class LocalSGD(ParallelTraining):
    """Averages weights and running statistics over all ranks, every `every` optimizer steps and after each epoch.

    If `every` is None, they are averaged only after each epoch. Each rank has its own optimizer state, as in RETURNN.
    Raises UsageError if `every` is below 1.
    """

    def __init__(self, *, every: int | None) -> None:
        self.every = every if every is None else whole("trainer.every", every, 1, 10**9, also="null: every epoch")

    def strategy(self, leaves_weights_out: bool) -> UnhurriedRanks:
        # no gradients are shared, so parameters without a gradient need no special treatment
        return IndependentWorkers()

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        task_of(pl_module).ranks_step_together = trainer.world_size == 1

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        due = self.every is not None and ends_update(trainer, batch_idx) and trainer.global_step % self.every == 0
        if trainer.world_size > 1 and (due or trainer.is_last_batch):
            weights = weights_of(task_of(pl_module).model)
            # torch would move the averaged tensors to new storage, but cuDNN's recurrent weights must stay in place
            mean = [t.clone() for t in weights]
            average_parameters(iter(mean), distributed.group.WORLD)  # type: ignore[arg-type]
            copy_into(task_of(pl_module).model, mean)

    def on_save_checkpoint(self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: Checkpoint) -> None:
        """Add the weights and optimizer states of all ranks, because only the first rank writes the checkpoint."""
        if trainer.world_size > 1:
            trained = [t.cpu() for t in weights_of(task_of(pl_module).model)]
            optimizers = apply_to_collection(checkpoint["optimizer_states"], torch.Tensor, torch.Tensor.cpu)
            state = {"trained_weights": trained, "optimizer_states": optimizers}
            checkpoint["workers"] = gather_from_ranks(state)

    def on_load_checkpoint(self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: Checkpoint) -> None:
        workers = checkpoint.get("workers", [])
        if len(workers) != trainer.world_size and max(len(workers), trainer.world_size) > 1:
            saved = f"the checkpoint belongs to {len(workers) or 1} independent workers"
            raise UsageError(f"{saved}, but this run has {trainer.world_size}")
        if workers:
            checkpoint.update(workers[trainer.global_rank])  # Lightning later restores optimizers from it
            copy_into(task_of(pl_module).model, checkpoint["trained_weights"])

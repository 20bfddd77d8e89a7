"""Which batches of a training end in an update of the weights: with batch.accumulate not every one does."""

import pytorch_lightning as pl


def ends_update(trainer: pl.Trainer, batch_idx: int) -> bool:
    """Whether the weights are updated after this batch of the epoch, the first of which is 0. The last one always ends
    an update, of however many batches.
    """
    return (batch_idx + 1) % trainer.accumulate_grad_batches == 0 or batch_idx + 1 == trainer.num_training_batches


def missing_share(trainer: pl.Trainer, batch_idx: int) -> float:
    """What to multiply the gradients of the update that this batch ends with, so that they are the mean over its
    batches: Lightning divides by batch.accumulate, also where the end of the epoch leaves fewer.
    """
    full = trainer.accumulate_grad_batches
    return full / (batch_idx % full + 1)


def trained_batches(trainer: pl.Trainer) -> int:
    """Batches that the training has gone through, those before a resume included."""
    return int(trainer.fit_loop.epoch_loop.total_batch_idx) + 1

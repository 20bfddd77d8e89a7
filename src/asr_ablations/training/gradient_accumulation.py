"""Gradient accumulation: with batch.accumulate, several batches share one update of the weights."""

import pytorch_lightning as pl


def ends_update(trainer: pl.Trainer, batch_idx: int) -> bool:
    """Return whether this batch of the epoch, counted from 0, ends an update; the last one always does."""
    return (batch_idx + 1) % trainer.accumulate_grad_batches == 0 or batch_idx + 1 == trainer.num_training_batches


def missing_share(trainer: pl.Trainer, batch_idx: int) -> float:
    """Return the factor that makes gradients the mean over an update's batches.

    Lightning divides by batch.accumulate even if an epoch's last update has fewer batches.
    """
    full = trainer.accumulate_grad_batches
    return full / (batch_idx % full + 1)


def count_trained_batches(trainer: pl.Trainer) -> int:
    """Count the batches trained so far, including batches before a resume."""
    return int(trainer.fit_loop.epoch_loop.total_batch_idx) + 1

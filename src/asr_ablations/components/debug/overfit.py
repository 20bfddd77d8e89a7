"""Training on a single batch. If a model cannot memorise it, the model, loss or learning rate is wrong."""

import pytorch_lightning as pl

from asr_ablations.data.datamodule import Speech
from asr_ablations.tools.checks import number
from asr_ablations.tools.machine import rank
from asr_ablations.training.callbacks.tables import evenly_spaced, transcribe
from asr_ablations.training.contracts import Checkpoint, Debugging
from asr_verdicts.error_counts import character_errors, sum_errors


class Overfit(Debugging):
    """Trains on one batch until the character error rate (CER) is at most `cer`, and prints whether it succeeded.

    The CER is a fraction, measured without augmentation or dropout. Raises UsageError if `cer` is negative.
    """

    def __init__(self, *, cer: float) -> None:
        self.batches = 1
        self.cer = number("debug.cer", cer, least=0)
        self.reached: float | None = None

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        rate = _measure_error_rate(trainer, pl_module) if trainer.is_global_zero else None
        self.reached = rate if trainer.world_size == 1 else trainer.strategy.broadcast(rate)
        trainer.should_stop |= self._learnt()

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if rank() or self.reached is None:
            return
        text = "learnt" if self._learnt() else "not learnt"
        print(f"{text}: CER {100 * self.reached:.1f} % on the batch after {trainer.global_step} updates", flush=True)

    def on_load_checkpoint(self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: Checkpoint) -> None:
        # a run that is resumed after being killed between training and evaluation must not train any further
        self.load_state_dict(checkpoint["callbacks"][self.state_key])
        trainer.should_stop |= self._learnt()

    def state_dict(self) -> dict[str, float | None]:
        return {"reached": self.reached}

    def load_state_dict(self, state_dict: dict[str, float | None]) -> None:
        self.reached = state_dict["reached"]

    def _learnt(self) -> bool:
        return self.reached is not None and self.reached <= self.cer


def _measure_error_rate(trainer: pl.Trainer, pl_module: pl.LightningModule) -> float:
    """Return the character error rate on the training set with the current weights, as a fraction."""
    speech: Speech = trainer.datamodule.sets["train"]  # type: ignore[attr-defined]
    batch = evenly_spaced(speech, len(speech))
    texts = transcribe(trainer, pl_module, batch)
    return sum_errors(character_errors(r, h) for r, h in zip(batch.texts, texts, strict=True)).rate

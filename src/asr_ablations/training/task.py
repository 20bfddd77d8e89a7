"""The LightningModule: features → model → loss, with its logging and optimiser."""

from contextlib import nullcontext
from typing import Any, NamedTuple, TypeAlias, cast

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.types import LRSchedulerTypeUnion, OptimizerLRScheduler
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.batch import Augmentation, Batch
from asr_ablations.tools.masks import normalise_utterances
from asr_ablations.tools.matrix_products import exact_products
from asr_ablations.training.contracts import (
    AcousticModel,
    Checkpoint,
    CuttingOrder,
    Decoder,
    Features,
    GradientTreatment,
    Loss,
    MonitoredSchedule,
    OptimizerFactory,
    Penalty,
    ScheduleFactory,
    TrainingCallbacks,
)
from asr_ablations.training.ddp import share_buffers
from asr_ablations.training.error_rates import COUNTS, ErrorRate
from asr_ablations.training.gradient_accumulation import missing_share
from asr_ablations.training.master_weights import sixteen_bit_copies
from asr_ablations.training.utterance_chunks import Chunks

Sums: TypeAlias = dict[str, tuple[torch.Tensor, torch.Tensor]]
"""By name: the sum () of an epoch's logged step values, and the number () of these steps."""
NOTHING = torch.zeros(()), torch.zeros((), dtype=torch.int64)


class ScoredBatch(NamedTuple):
    """A training batch with its loss () in nats; the other fields are of chunks if utterances are cut."""

    loss: torch.Tensor
    log_probs: torch.Tensor
    lengths: torch.Tensor
    batch: Batch


class CTCTask(pl.LightningModule):
    """Trains and validates one model. seed and augment_seed feed the noise of gradients and of features."""

    ranks_step_together = True
    """False if workers train independently between two averagings of their weights."""

    sixteen_bit_copies = False
    """True if the forward pass uses copies of the weights in 16 bits (precision=16-master)."""

    gradient_norm: torch.Tensor | None = None
    """The latest gradient norm () before clipping, on the device, as the gradient treatment logged it."""

    cutting: CuttingOrder | None = None
    """Cuts training utterances into chunks; None trains on whole utterances."""

    callbacks: TrainingCallbacks
    """Callbacks that the config names, for the Trainer."""

    def __init__(
        self,
        *,
        model: AcousticModel,
        features: Features,
        augment: Augmentation,
        decoder: Decoder,
        optimizer: OptimizerFactory,
        schedule: ScheduleFactory,
        gradient: GradientTreatment,
        loss: Loss,
        penalty: Penalty | None,
        alphabet: Alphabet,
        validation_sets: list[str],
        seed: int,
        augment_seed: int,
    ) -> None:
        super().__init__()
        assert isinstance(model, nn.Module)
        assert isinstance(features, nn.Module)
        self.model, self.features = model, features
        self.augment, self.decoder = augment, decoder
        self.make_optimizer, self.make_schedule = optimizer, schedule
        self.alphabet, self.validation_sets = alphabet, validation_sets
        self.gradient, self.loss, self.penalty = gradient, loss, penalty
        self.seed, self.augment_seed = seed, augment_seed
        self.sums: Sums = {}
        rates = [{key: ErrorRate(count) for key, count in COUNTS.items()} for _ in validation_sets]
        self.error_rates = nn.ModuleList(map(nn.ModuleDict, rates))

    def setup(self, stage: str) -> None:
        """Lightning's hook before the first step: prepare the loss."""
        data = getattr(self.trainer, "datamodule", None)  # None if only time is measured
        if data is not None:
            self.loss.prepare(data.sets, self.trainer.strategy.root_device)  # the model is moved to it later

    def forward(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute log-probabilities (B, T, V) in nats, float32, and their lengths (B,) on the CPU."""
        return self.log_probs(*self.normalised_features(batch))

    def output_frames(self, samples: torch.Tensor) -> torch.Tensor:
        """Return output frames (B,) for lengths in samples (B,)."""
        return self.model.output_lengths(self.features.frames(samples))

    def normalised_features(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute features (B, T, F), normalised in each bin of each utterance, and lengths (B,) in frames.

        The mean is 0 and the standard deviation 1, or unchanged if the features ask for it. The precision is always
        float32, without tf32: power spectra do not fit into 16 bits.
        """
        with torch.no_grad(), torch.autocast(self.device.type, enabled=False), exact_products():
            if batch.features is None:
                features, lengths = self.features(batch.waveforms(), batch.lengths)
            else:
                lengths = self.features.frames(batch.lengths)
                features = batch.padded_features(lengths)
            return normalise_utterances(features, lengths, getattr(self.features, "variance", True)), lengths

    def log_probs(self, features: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Map normalised features (B, T, F) to log-probabilities (B, T', V) in nats, float32, and their lengths."""
        with sixteen_bit_copies(self.model) if self.sixteen_bit_copies else nullcontext():
            # 16-bit weights need 16-bit input
            logits, lengths = self.model(features.to(next(self.model.parameters()).dtype), lengths)
        with torch.autocast(self.device.type, enabled=False):
            return logits.float().log_softmax(dim=-1), lengths

    def scored(self, batch: Batch) -> ScoredBatch:
        """Augment a training batch as in this epoch, and compute its loss."""
        features, lengths = self.normalised_features(batch)
        with exact_products():
            features = self.augment(features, lengths, batch.ids, self.augment_seed, self.current_epoch)
        if self.cutting is None:
            log_probs, lengths = self.log_probs(features, lengths)
        else:
            chunks = Chunks(self.cutting, self.loss, batch, features, lengths)
            log_probs, lengths = self.log_probs(chunks.features, chunks.lengths)
            batch = chunks.labelled(lengths, log_probs.shape[1])
        return ScoredBatch(self.loss(log_probs, lengths, batch), log_probs, lengths, batch)

    def training_step(self, batch: Batch, batch_index: int) -> torch.Tensor:
        """Return the loss of a batch plus the penalty of the weights, in nats; train/loss is the loss alone."""
        padding = batch.padding()
        loss, log_probs, lengths, batch = self.scored(batch)
        self._log_frame_rates("train", log_probs, lengths, batch, on_step=False)
        # the mean over ranks, or the first rank's loss if ranks must not wait for each other
        together, weight = self.ranks_step_together, self.loss.weight(batch)
        self.log("train/loss", loss, on_step=True, on_epoch=True, batch_size=weight, sync_dist=together)
        self._log_step("train/padding_percent", 100 * padding)
        if self.penalty is None:
            return loss
        penalty = self.penalty(self.model)
        self._log_step("train/penalty", penalty.detach())
        return loss + penalty

    def on_validation_epoch_start(self) -> None:
        """Lightning's hook after the callbacks' hooks: make all ranks validate the first rank's model."""
        share_buffers(self.model)

    def validation_step(self, batch: Batch, batch_index: int, dataloader_idx: int = 0) -> None:
        """Log the loss and error rates of a batch under validation/<set>/."""
        log_probs, lengths = self(batch)
        loss = self.loss(log_probs, lengths, batch)
        texts = self.decoder(log_probs, lengths)
        name, weight = f"validation/{self.validation_sets[dataloader_idx]}", self.loss.weight(batch)
        self.log(f"{name}/loss", loss, sync_dist=True, batch_size=weight, add_dataloader_idx=False, on_epoch=True)
        self._log_frame_rates(name, log_probs, lengths, batch, add_dataloader_idx=False)
        for key, metric in cast(dict[str, ErrorRate], self.error_rates[dataloader_idx]).items():
            metric.update(texts, batch.texts)
            # the metric object, not its value: Lightning resets it each epoch and gathers it over ranks
            self.log(f"{name}/{key}", metric, batch_size=len(batch), add_dataloader_idx=False, on_epoch=True)

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """Build the optimizer of the model's parameters, and its schedule (learning_rate.py)."""
        optimizer = self.make_optimizer(self.model.parameters())
        schedule = self.make_schedule(optimizer, total_steps=int(self.trainer.estimated_stepping_batches))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def lr_scheduler_step(self, scheduler: LRSchedulerTypeUnion, metric: object) -> None:
        """Lightning's hook after a step of the optimizer."""
        if not isinstance(scheduler, MonitoredSchedule):  # learning_rate.py steps those after a validation
            cast(LRScheduler, scheduler).step()

    def on_before_optimizer_step(self, optimizer: Optimizer) -> None:
        """Lightning's hook before the gradient treatment: make gradients the mean over the update's batches."""
        share = missing_share(self.trainer, self.trainer.fit_loop.epoch_loop.batch_idx)
        if share != 1:
            torch._foreach_mul_([p.grad for p in self.model.parameters() if p.grad is not None], share)

    def configure_gradient_clipping(self, *_: object, **__: object) -> None:
        """Treat the gradients, unscaled, before the optimizer's step."""
        parameters = list(self.model.parameters())
        self.gradient.before_step(parameters, step=self.global_step, seed=self.seed, log=self._log_gradient)

    def optimizer_step(self, *arguments: Any, **keywords: Any) -> None:
        """Take the optimizer's step, then treat the weights."""
        super().optimizer_step(*arguments, **keywords)
        self.gradient.after_step(list(self.model.parameters()), self._log_step)

    def _log_gradient(self, name: str, value: float | torch.Tensor) -> None:
        if name == "train/gradient_norm":
            self.gradient_norm = torch.as_tensor(value).detach()
        self._log_step(name, value)

    def _log_step(self, name: str, value: float | torch.Tensor) -> None:
        """Add to the epoch's mean, unless not finite: the step is then skipped. Lightning's log would take 0.2 ms."""
        # numbers stay on the CPU: moving them would wait for the device
        value = torch.as_tensor(value).detach().float()
        finite = value.isfinite()
        total, steps = self.sums.get(name, NOTHING)
        self.sums[name] = total + value.where(finite, 0.0), steps + finite

    def on_train_epoch_end(self) -> None:
        """Lightning's hook after the last batch and the validation: log the means over the epoch's steps."""
        for name, (total, steps) in self.sums.items():
            self.log(name, total / steps, on_step=False, on_epoch=True, batch_size=1)
        self.sums = {}

    def on_save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Add the alphabet, without which a model is useless."""
        checkpoint["alphabet"], checkpoint["separation"] = self.alphabet.characters, self.alphabet.separation
        if type(self.alphabet) is not Alphabet:
            checkpoint["alphabet_class"] = type(self.alphabet).__qualname__

    def on_load_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Raise ValueError for a checkpoint of another alphabet."""
        characters, separation = checkpoint.get("alphabet"), checkpoint.get("separation", "")
        if (characters, separation) != (self.alphabet.characters, self.alphabet.separation):
            expected = self.alphabet.characters
            raise ValueError(f"the checkpoint was trained with the alphabet {characters!r}, this run uses {expected!r}")

    def _log_frame_rates(
        self, name: str, log_probs: torch.Tensor, lengths: torch.Tensor, batch: Batch, **options: Any
    ) -> None:
        """Log rates over frames, with equal weight for each frame."""
        frames = max(1, int(lengths.sum()))
        for key, rate in self.loss.frame_rates(log_probs.detach(), lengths, batch).items():
            self.log(f"{name}/{key}", rate, on_epoch=True, batch_size=frames, sync_dist=True, **options)


def task_of(module: pl.LightningModule) -> CTCTask:
    """Cast Lightning's module to a task. A benchmark may pass another module with the same attributes."""
    return cast(CTCTask, module)

"""Define the LightningModule, which computes a loss from features, logs results and updates the weights."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias, cast

import pytorch_lightning as pl
import torch
from pytorch_lightning.trainer.states import TrainerFn
from pytorch_lightning.utilities.types import LRSchedulerTypeUnion, OptimizerLRScheduler
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torchmetrics.text import CharErrorRate

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.batch import Augmentation, Batch
from asr_ablations.tools.masks import normalise_utterances, valid_frames
from asr_ablations.tools.matrix_products import exact_products
from asr_ablations.tools.random_streams import stream
from asr_ablations.training.auxiliary import Activations, auxiliary_of
from asr_ablations.training.contracts import (
    AcousticModel,
    Checkpoint,
    CuttingOrder,
    Decoder,
    Features,
    FrameLoss,
    GradientTreatment,
    Loss,
    MaskingModel,
    MonitoredSchedule,
    OptimizerFactory,
    Penalty,
    ScheduleFactory,
    TrainingCallbacks,
)
from asr_ablations.training.ddp import share_buffers
from asr_ablations.training.precision import copies_in
from asr_verdicts.error_counts import Errors, character_errors, sum_errors, word_errors

Sums: TypeAlias = dict[str, tuple[torch.Tensor, torch.Tensor]]
"""Running weighted sum () and total weight () of each value that is averaged over an epoch, by name."""


class ErrorRate(CharErrorRate):
    """Variant of torchmetrics' error rate that uses our edit distance, which is 160 times as fast as theirs."""

    def __init__(self, count: Callable[[str, str], Errors]) -> None:
        super().__init__()
        self.count = count

    def update(self, preds: str | Sequence[str], target: str | Sequence[str]) -> None:
        total = sum_errors(self.count(reference, text) for reference, text in zip(target, preds, strict=True))
        self.errors += total.count
        self.total += total.total


def errors_over_longer(reference: str, hypothesis: str) -> Errors:
    """Count character errors relative to the longer of the two transcripts (Baunsgaard2020 §4.1.1, equation 3)."""
    return character_errors(reference, hypothesis).over_longer


COUNTS = {"wer": word_errors, "cer": character_errors, "cer_longer": errors_over_longer}
"""For each logged error rate, the function that counts the errors of a pair (reference, hypothesis)."""


class Chunks:
    """A batch of utterances cut into N chunks of up to C frames: features (N, C, F), and lengths (N,) on the CPU."""

    def __init__(
        self, order: CuttingOrder, loss: Loss, batch: Batch, features: torch.Tensor, lengths: torch.Tensor
    ) -> None:
        assert isinstance(loss, FrameLoss)
        self.utterance, starts, self.lengths = order.chunks(lengths)
        device, longest = features.device, int(self.lengths.max())
        rows = self.utterance.to(device, non_blocking=True)[:, None]
        frames = (starts[:, None] + torch.arange(longest)).clamp(max=max(0, features.shape[1] - 1))
        frames = frames.to(device, non_blocking=True)
        self.features = features[rows, frames] * valid_frames(self.lengths, longest, device)[..., None]
        self._labels = loss.labels(batch, lengths, features.shape[1])[rows, frames]
        self._batch = batch

    def labelled(self, lengths: torch.Tensor, frames: int) -> Batch:
        """Return the chunks as a batch for the loss, with labels (N, frames): one for each output frame.

        An output frame gets the label of the feature frame at the same relative position in the chunk.
        lengths: number of output frames of each chunk, (N,), on the CPU.
        """
        place = torch.arange(frames) * self.lengths[:, None] // lengths.clamp(min=1)[:, None]
        place = place.minimum(self.lengths.clamp(min=1)[:, None] - 1).to(self._labels.device, non_blocking=True)
        ids, texts = (
            [values[row] for row in self.utterance.tolist()] for values in (self._batch.ids, self._batch.texts)
        )
        return replace(self._batch, ids=ids, texts=texts, frame_labels=self._labels.gather(1, place))


def view_seeds(seed: int, views: int) -> list[int]:
    """Return the augmentation seed of each view (augmented copy) of a batch. The first one is `seed` itself."""
    return [seed, *(stream(seed, "view", view) for view in range(1, views))]


class ScoredBatch(NamedTuple):
    """A training batch with its loss () in nats. If utterances are cut, log_probs, lengths and batch refer to chunks.

    auxiliary: the auxiliary loss () in nats before weighting, or None if there is none.
    total: the loss plus the weighted auxiliary loss () in nats.
    """

    loss: torch.Tensor
    log_probs: torch.Tensor
    lengths: torch.Tensor
    batch: Batch
    auxiliary: torch.Tensor | None
    total: torch.Tensor


class CTCTask(pl.LightningModule):
    """Trains and validates one model. seed: seed of gradient noise. augment_seed: seed of the augmentation."""

    ranks_step_together = True
    """Whether ranks share gradients. If not, they train independently until their weights are averaged."""

    sixteen_bit_copies = False
    """Whether the forward pass uses 16-bit copies of the weights (precision=16-master)."""

    gradient_norm: torch.Tensor | None = None
    """Latest gradient norm () before clipping, on the device; None if the gradient treatment has not logged one."""

    cutting: CuttingOrder | None = None
    """The batch order that cuts training utterances into chunks; None trains on whole utterances."""

    callbacks: TrainingCallbacks
    """Callbacks that the config chooses and the Trainer runs."""

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
        """Prepare the loss. Lightning calls this before the first step."""
        data = getattr(self.trainer, "datamodule", None)  # None in speed measurements
        if data is not None:
            self.loss.prepare(data.sets, self.trainer.strategy.root_device)  # Lightning moves the model there later

    def forward(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute log-probabilities (B, T, V) in nats, float32, and their lengths (B,) on the CPU."""
        return self.log_probs(*self.normalised_features(batch))

    def output_frames(self, samples: torch.Tensor) -> torch.Tensor:
        """Return the number of output frames (B,) for audio lengths (B,) in samples."""
        return self.model.output_lengths(self.features.frames(samples))

    def normalised_features(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute normalised features (B, T, F), and their lengths (B,) in frames.

        Each feature of an utterance is shifted to mean 0 and, unless the features set `variance` to false, scaled to
        standard deviation 1. Features are always computed in float32 without tf32, because power spectra do not fit
        into 16 bits.
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
        half = torch.float16 if features.is_cuda else torch.bfloat16
        with copies_in(half, self.model) if self.sixteen_bit_copies else nullcontext():
            # 16-bit weights need 16-bit input
            logits, lengths = self.model(features.to(next(self.model.parameters()).dtype), lengths)
        with torch.autocast(self.device.type, enabled=False):
            return logits.float().log_softmax(dim=-1), lengths

    def scored(self, batch: Batch) -> ScoredBatch:
        """Augment a training batch for the current epoch and compute its losses."""
        features, lengths = self.normalised_features(batch)
        seeds = view_seeds(self.augment_seed, getattr(self.loss, "views", 1))
        with exact_products():
            views = [self.augment(features, lengths, batch.ids, seed, self.current_epoch) for seed in seeds]
        if isinstance(self.model, MaskingModel):
            self.model.mask_next_pass(batch.ids, seeds, self.current_epoch)
        if len(views) == 1:
            (features,) = views
        else:
            features, lengths, batch = torch.cat(views), lengths.repeat(len(views)), batch.repeat(len(views))
        added = None
        if self.cutting is None:
            with Activations(self.model) as activations:
                log_probs, lengths = self.log_probs(features, lengths)
            added = activations.loss(lengths, batch)
        else:
            chunks = Chunks(self.cutting, self.loss, batch, features, lengths)
            log_probs, lengths = self.log_probs(chunks.features, chunks.lengths)
            batch = chunks.labelled(lengths, log_probs.shape[1])
        loss, auxiliary = self.loss(log_probs, lengths, batch), auxiliary_of(self.model)
        total = loss if added is None or auxiliary is None else loss + auxiliary.weight * added
        return ScoredBatch(loss, log_probs, lengths, batch, added, total)

    def training_step(self, batch: Batch, batch_index: int) -> torch.Tensor:
        """Return a batch's loss plus weighted auxiliary loss plus penalty in nats. Log all three before weighting."""
        padding = batch.padding()
        loss, log_probs, lengths, batch, added, total = self.scored(batch)
        self._log_frame_rates("train", log_probs, lengths, batch, on_step=False)
        # log the mean over ranks, or only the first rank's loss if ranks must not wait for each other
        together, weight = self.ranks_step_together, self.loss.weight(batch)
        self.log("train/loss", loss, on_step=True, on_epoch=True, batch_size=weight, sync_dist=together)
        self._log_step("train/padding_percent", 100 * padding)
        if added is not None and (auxiliary := auxiliary_of(self.model)) is not None:
            self._log_step(f"train/{auxiliary.name}", added)
        if self.penalty is None:
            return total
        penalty = self.penalty(self.model)
        self._log_step("train/penalty", penalty.detach())
        return total + penalty

    def on_validation_epoch_start(self) -> None:
        """Copy the first rank's buffers to all ranks, so all validate the same model. Callbacks' hooks run earlier."""
        share_buffers(self.model)

    def validation_step(self, batch: Batch, batch_index: int, dataloader_idx: int = 0) -> None:
        """Log the loss and error rates of a validation batch under names that begin with validation/<set>/."""
        log_probs, lengths = self(batch)
        loss = self.loss(log_probs, lengths, batch)
        texts = self.decoder(log_probs, lengths)
        name, weight = f"validation/{self.validation_sets[dataloader_idx]}", self.loss.weight(batch)
        self.log(f"{name}/loss", loss, sync_dist=True, batch_size=weight, add_dataloader_idx=False, on_epoch=True)
        self._log_frame_rates(name, log_probs, lengths, batch, add_dataloader_idx=False)
        for key, metric in cast(dict[str, ErrorRate], self.error_rates[dataloader_idx]).items():
            metric.update(texts, batch.texts)
            # log the metric object, because Lightning then resets it each epoch and gathers it over ranks
            self.log(f"{name}/{key}", metric, batch_size=len(batch), add_dataloader_idx=False, on_epoch=True)

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """Build the optimizer of the model's parameters, and its learning-rate schedule."""
        optimizer = self.make_optimizer(self.model.named_parameters())
        schedule = self.make_schedule(optimizer, total_steps=int(self.trainer.estimated_stepping_batches))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def lr_scheduler_step(self, scheduler: LRSchedulerTypeUnion, metric: object) -> None:
        """Update the learning rate after an optimizer step, unless the schedule is a MonitoredSchedule."""
        if not isinstance(scheduler, MonitoredSchedule):  # StepOnValidation steps monitored schedules
            cast(LRScheduler, scheduler).step()

    def on_before_optimizer_step(self, optimizer: Optimizer) -> None:
        """Scale the gradients to their mean over the batches of this update, before the gradient treatment."""
        # Lightning divides by batch.accumulate even if the last update of an epoch has fewer batches
        full = self.trainer.accumulate_grad_batches
        if (share := full / (self.trainer.fit_loop.epoch_loop.batch_idx % full + 1)) != 1:
            torch._foreach_mul_([p.grad for p in self.model.parameters() if p.grad is not None], share)

    def configure_gradient_clipping(self, *_: object, **__: object) -> None:
        """Apply the gradient treatment to the gradients before the optimizer step. They are already unscaled."""
        parameters = list(self.model.parameters())
        self.gradient.before_step(parameters, step=self.global_step, seed=self.seed, log=self._log_gradient)

    def optimizer_step(self, *arguments: Any, **keywords: Any) -> None:
        """Take an optimizer step, then let the gradient treatment change the weights."""
        super().optimizer_step(*arguments, **keywords)
        self.gradient.after_step([p for p in self.model.parameters() if p.requires_grad], self._log_step)

    def _log_gradient(self, name: str, value: float | torch.Tensor) -> None:
        if name == "train/gradient_norm":
            self.gradient_norm = torch.as_tensor(value).detach()
        self._log_step(name, value)

    def _log_step(self, name: str, value: float | torch.Tensor) -> None:
        """Add a value to its running mean over the epoch if it is finite. Lightning's `log` would take 0.2 ms."""
        # plain numbers stay on the CPU, because moving them would make the host wait for the device
        value = torch.as_tensor(value).detach().float()
        finite = value.isfinite()
        total, steps = self.sums.get(name, (0.0, 0))
        self.sums[name] = total + value.where(finite, 0.0), steps + finite

    def on_train_epoch_end(self) -> None:
        """Log the epoch's mean of each value from `_log_step`. Lightning calls this after the epoch's validation."""
        for name, (total, steps) in self.sums.items():
            self.log(name, total / steps, on_step=False, on_epoch=True, batch_size=1)
        self.sums = {}

    def on_save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Add the alphabet to the checkpoint, because the model's outputs have no meaning without it."""
        checkpoint["alphabet"] = self.alphabet.state()

    def on_load_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Raise ValueError if the checkpoint's alphabet differs from the task's."""
        self.alphabet.check_state(checkpoint.get("alphabet"))

    def _log_frame_rates(
        self, name: str, log_probs: torch.Tensor, lengths: torch.Tensor, batch: Batch, **options: Any
    ) -> None:
        """Log the frame-level rates of the loss. Every frame of an epoch has the same weight in their means."""
        frames = max(1, int(lengths.sum()))
        for key, rate in self.loss.frame_rates(log_probs.detach(), lengths, batch).items():
            self.log(f"{name}/{key}", rate, on_epoch=True, batch_size=frames, sync_dist=True, **options)


def task_of(module: pl.LightningModule) -> CTCTask:
    """Cast a LightningModule to CTCTask. Benchmarks may pass a different class with the same attributes."""
    return cast(CTCTask, module)


class StepOnValidation(pl.Callback):
    """Steps a MonitoredSchedule after each validation during training, with the value named by its `monitor`.

    Lightning itself would step the schedule after writing the epoch's checkpoint, and a run resumed from that
    checkpoint would miss the step. Callbacks that write checkpoints run after this one, so they save the schedule after
    its step.
    """

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.state.fn != TrainerFn.FITTING:
            return
        for config in trainer.lr_scheduler_configs:
            schedule: object = config.scheduler
            if isinstance(schedule, MonitoredSchedule):
                first = task_of(pl_module).validation_sets[0]
                schedule.step(float(trainer.callback_metrics[f"validation/{first}/{schedule.monitor}"]))


def ends_update(trainer: pl.Trainer, batch_idx: int) -> bool:
    """Return whether batch `batch_idx` of the epoch is the last one before an optimizer step."""
    return (batch_idx + 1) % trainer.accumulate_grad_batches == 0 or batch_idx + 1 == trainer.num_training_batches


def count_trained_batches(trainer: pl.Trainer) -> int:
    """Count the batches trained so far, including those before the run was resumed."""
    return int(trainer.fit_loop.epoch_loop.total_batch_idx) + 1

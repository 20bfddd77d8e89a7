"""The LightningModule: features → model → loss, with its logging and optimiser."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytorch_lightning as pl
import torch
from torch import nn
from torchmetrics.text import CharErrorRate, WordErrorRate

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.utterance import Batch
from asr_ablations.tools.masks import normalise_utterances


class CTCTask(pl.LightningModule):
    """Training and validation of one model. seed and augment_seed feed the noise of gradients and of features."""

    ranks_step_together = True
    """False where workers are independent between two averagings of their weights."""

    def __init__(
        self,
        *,
        model: nn.Module,
        features: nn.Module,
        augment: Callable[..., torch.Tensor],
        decoder: Callable[[torch.Tensor, torch.Tensor], list[str]],
        optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer],
        schedule: Callable[..., torch.optim.lr_scheduler.LRScheduler],
        gradient: Any,
        loss: Any,
        alphabet: Alphabet,
        validation_sets: list[str],
        seed: int,
        augment_seed: int,
    ) -> None:
        super().__init__()
        self.model, self.features = model, features
        self.augment, self.decoder = augment, decoder
        self.make_optimizer, self.make_schedule = optimizer, schedule
        self.alphabet, self.validation_sets = alphabet, validation_sets
        self.gradient, self.loss = gradient, loss
        self.seed, self.augment_seed = seed, augment_seed
        self.word_error_rates = nn.ModuleList(WordErrorRate() for _ in validation_sets)
        self.character_error_rates = nn.ModuleList(CharErrorRate() for _ in validation_sets)

    def setup(self, stage: str) -> None:
        data: Any = getattr(self.trainer, "datamodule", None)  # none where only the time is measured
        if data is not None:
            self.loss.prepare(data.sets, self.trainer.strategy.root_device)  # the model is moved there later

    def forward(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities (B, T, V) in nats, float32, and their lengths (B,) on the CPU."""
        features, lengths = self.normalised_features(batch)
        return self.log_probs(features, lengths)

    def output_frames(self, samples: torch.Tensor) -> torch.Tensor:
        """Output frames (B,) for lengths in samples (B,)."""
        return self.model.output_lengths(self.features.frames(samples))  # type: ignore[operator]

    def training_step(self, batch: Batch, batch_index: int) -> torch.Tensor:
        features, lengths = self.normalised_features(batch)
        features = self.augment(features, lengths, batch.ids, self.augment_seed, self.current_epoch)
        log_probs, lengths = self.log_probs(features, lengths)
        loss = self.loss(log_probs, lengths, batch)
        size = len(batch)
        self._log_frame_rates("train", log_probs, lengths, batch, on_step=False)
        # the mean over ranks; of ranks that must not wait for one another the first one's
        self.log("train/loss", loss, on_step=True, on_epoch=True, batch_size=size, sync_dist=self.ranks_step_together)
        self.log("train/padding_percent", 100 * batch.padding(), on_step=False, on_epoch=True, batch_size=1)
        return loss

    def validation_step(self, batch: Batch, batch_index: int, dataloader_idx: int = 0) -> None:
        log_probs, lengths = self(batch)
        loss = self.loss(log_probs, lengths, batch)
        texts = self.decoder(log_probs, lengths)
        name = f"validation/{self.validation_sets[dataloader_idx]}"
        words, characters = self.word_error_rates[dataloader_idx], self.character_error_rates[dataloader_idx]
        words.update(texts, batch.texts)  # type: ignore[operator]
        characters.update(texts, batch.texts)  # type: ignore[operator]
        options: dict[str, Any] = {"batch_size": len(batch), "add_dataloader_idx": False, "on_epoch": True}
        self.log(f"{name}/loss", loss, sync_dist=True, **options)
        self._log_frame_rates(name, log_probs, lengths, batch, add_dataloader_idx=False)
        # The metric objects, not their values: Lightning resets them each epoch and gathers them over ranks.
        self.log(f"{name}/wer", words, **options)  # type: ignore[arg-type]
        self.log(f"{name}/cer", characters, **options)  # type: ignore[arg-type]

    def configure_optimizers(self) -> Any:
        optimizer = self.make_optimizer(self.model.parameters())
        schedule = self.make_schedule(optimizer, total_steps=int(self.trainer.estimated_stepping_batches))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def lr_scheduler_step(self, scheduler: Any, metric: Any) -> None:
        if getattr(scheduler, "monitor", None) is None:  # schedule/on_validation.py steps those that have one
            scheduler.step()

    def configure_gradient_clipping(
        self,
        optimizer: Any,
        gradient_clip_val: Any = None,
        gradient_clip_algorithm: Any = None,
    ) -> None:
        parameters = list(self.model.parameters())
        self.gradient.before_step(parameters, step=self.global_step, seed=self.seed, log=self._log_of_step())

    def optimizer_step(self, *arguments: Any, **keywords: Any) -> None:
        super().optimizer_step(*arguments, **keywords)
        self.gradient.after_step(list(self.model.parameters()), self._log_of_step())

    def _log_of_step(self) -> Callable[..., None]:
        return partial(self.log, on_step=False, on_epoch=True, batch_size=1)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["alphabet"], checkpoint["separation"] = self.alphabet.characters, self.alphabet.separation

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        there = (checkpoint.get("alphabet"), checkpoint.get("separation", ""))
        if there != (self.alphabet.characters, self.alphabet.separation):
            raise ValueError(f"checkpoint of the alphabet {there[0]!r}, this run's is {self.alphabet.characters!r}")

    def normalised_features(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Features (B, T, D), normalised per utterance, and their lengths in frames (B,)."""
        # Features are float32 whatever the precision: power spectra do not fit into 16 bits.
        with torch.no_grad(), torch.autocast(self.device.type, enabled=False):
            if batch.features is None:
                features, lengths = self.features(batch.waveforms(), batch.lengths)
            else:
                lengths = self.features.frames(batch.lengths)  # type: ignore[operator]
                features = batch.padded_features(lengths)
            return normalise_utterances(features, lengths), lengths

    def log_probs(self, features: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities (B, T', V) in nats, float32, of features (B, T, D), and their lengths (B,)."""
        # where the weights are in 16 bits, their input must be
        logits, lengths = self.model(features.to(next(self.model.parameters()).dtype), lengths)
        with torch.autocast(self.device.type, enabled=False):
            return logits.float().log_softmax(dim=-1), lengths

    def _log_frame_rates(
        self, name: str, log_probs: torch.Tensor, lengths: torch.Tensor, batch: Batch, **options: Any
    ) -> None:
        """Rates over frames, each frame weighing the same."""
        frames = max(1, int(lengths.sum()))
        for key, rate in self.loss.frame_rates(log_probs.detach(), lengths, batch).items():
            self.log(f"{name}/{key}", rate, on_epoch=True, batch_size=frames, sync_dist=True, **options)

"""Training loops to compare with RETURNN: plain PyTorch, this project's loop, and a minimal version of it."""

import logging
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from queue import Queue
from tempfile import mkdtemp
from threading import Thread
from typing import Any

import pytorch_lightning as pl
import torch
from omegaconf import OmegaConf
from pytorch_lightning.loggers import CSVLogger
from torch import nn
from torch.nn.functional import cross_entropy

from asr_ablations.components.augment.none import NoAugmentation
from asr_ablations.components.gradient.norm import ClipNorm
from asr_ablations.components.loss.framewise import Framewise
from asr_ablations.components.model.convolution import PaddedConvolution
from asr_ablations.components.model.ds2 import DeepSpeech2
from asr_ablations.components.norm.none import NoNorm
from asr_ablations.components.schedule.constant import constant
from asr_ablations.config.build import build
from asr_ablations.data.alphabet import Letters
from asr_ablations.tools.machine import device_clock, rank
from asr_ablations.training.assembly import trainer
from asr_ablations.training.callbacks.utilisation import Throughput
from asr_ablations.training.contracts import AcousticModel, OptimizerFactory
from asr_ablations.training.lightning_warnings import silence_lightning
from asr_ablations.training.task import CTCTask
from asr_benchmarks.toolkit.network import Engine, Frames, Network, Settings
from asr_benchmarks.worker import Step


class PlainLoop(Engine):
    """An engine that trains the Network in plain PyTorch."""

    def __init__(self, folder: str, settings: Settings, config: str) -> None:
        super().__init__(folder, settings, config)
        self.network = Network(settings).to(settings.device)
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=settings.lr, momentum=settings.momentum)
        self.epochs = 0

    def step(self) -> Step:
        started = device_clock(self.settings.device)
        count, total = 0, torch.zeros((), device=self.settings.device)
        self.network.train()
        for x, y in self.frames.batches(self.epochs):
            loss = cross_entropy(self.network(x).flatten(0, 1), y.flatten())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total = total + loss.detach() * y.numel()
            count += y.numel()
        self.epochs += 1
        return Step(device_clock(self.settings.device) - started, float(total) / count, count)

    def compute_logits(self, x: torch.Tensor) -> torch.Tensor:
        return self.network.eval()(x)

    def versions(self) -> dict[str, str]:
        return {"torch": torch.__version__}


@dataclass
class FrameBatch:
    """A batch of features (B, T, D), frame_labels (B, T) for the framewise loss, and lengths (B,) on the CPU."""

    features: torch.Tensor
    frame_labels: torch.Tensor
    lengths: torch.Tensor
    ids: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.lengths)

    def to(self, device: torch.device, non_blocking: bool = True) -> "FrameBatch":
        features, labels = (x.to(device, non_blocking=non_blocking) for x in (self.features, self.frame_labels))
        return FrameBatch(features, labels, self.lengths)

    def padding(self) -> float:
        """Return the share of padding, which is 0 because all chunks have the same length."""
        return 0.0


class Batches:
    """One rank's batches of an epoch, in the form that Lightning reads. number: epoch number, from 0."""

    def __init__(self, frames: Frames, rank: int, ranks: int) -> None:
        self.frames, self.rank, self.ranks, self.number = frames, rank, ranks, 0

    def __len__(self) -> int:
        return len(self.frames.epoch(0, self.rank, self.ranks))

    def __iter__(self) -> Iterator[FrameBatch]:
        for x, y in self.frames.batches(self.number, self.rank, self.ranks):
            yield FrameBatch(x, y, torch.full((len(x),), x.shape[1]))


class GivenFeatures(nn.Module):
    """Replaces feature extraction, because the batches already contain features."""

    size = 0

    def frames(self, lengths: torch.Tensor) -> torch.Tensor:
        """Return the lengths unchanged, because they already count frames."""
        return lengths


class FrameTask(CTCTask):
    """The project's task without audio, transcripts, gradient clipping or schedule. It still logs the gradient norm."""

    def __init__(self, model: AcousticModel, optimizer: OptimizerFactory, seed: int) -> None:
        super().__init__(
            model=model,
            features=GivenFeatures(),
            augment=NoAugmentation(),
            decoder=lambda log_probs, lengths: [],
            optimizer=optimizer,
            schedule=constant,
            gradient=ClipNorm(limit=None),
            loss=Framewise(reduction="frame"),
            penalty=None,
            alphabet=Letters("-"),
            validation_sets=[],
            seed=seed,
            augment_seed=seed,
        )

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return self.make_optimizer(self.model.named_parameters())

    def normalised_features(self, batch: object) -> tuple[torch.Tensor, torch.Tensor]:
        assert isinstance(batch, FrameBatch)
        return batch.features, batch.lengths


class MinimalTask(FrameTask):
    """A FrameTask with softmax and loss in one call. It logs neither the gradient norm nor frame error rates."""

    def training_step(self, batch: object, batch_index: int) -> torch.Tensor:
        assert isinstance(batch, FrameBatch)
        logits, _ = self.model(batch.features, batch.lengths)
        loss = cross_entropy(logits.float().flatten(0, 1), batch.frame_labels.flatten())
        self.log("train/loss", loss, on_step=False, on_epoch=True, batch_size=len(batch))
        return loss

    def configure_gradient_clipping(self, *arguments: object, **keywords: object) -> None:
        """Do nothing. This replaces the gradient treatment of the base class, which also logs the norm."""


def build_project_model(settings: Settings, rnn: Callable[[int, int], nn.Module]) -> DeepSpeech2:
    """Build this project's model without convolutions. If its layers are LSTMs, its initial weights are Network's."""
    model = DeepSpeech2(
        settings.features,
        settings.labels,
        convolution=PaddedConvolution,
        convolutions=[],
        rnn=rnn,
        norm=NoNorm,
        width=settings.width,
        layers=settings.layers,
        directions="forward",
        lookahead=0,
        fully_connected=1,
        dropout=0.0,
    )
    start = {}
    for key, value in Network(settings).state_dict().items():
        name, _, layer = key.removeprefix("lstm.").rpartition("_l")
        start[f"recurrent.{layer}.forwards.cell.{name}_l0" if key.startswith("lstm.") else key] = value
    if start.keys() == {key for key in model.state_dict() if not key.endswith("_extra_state")}:
        model.load_state_dict(start, strict=False)
    return model


class EpochGate(pl.Callback):
    """Waits for an item in the queue `go` before each epoch, and puts a Step into the queue `done` afterwards."""

    def __init__(self, go: Queue[None], done: Queue[Step | Exception], batches: Batches) -> None:
        self.go, self.done, self.batches = go, done, batches
        self.started = 0.0

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.go.get()
        self.started = device_clock(pl_module.device)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        seconds = device_clock(pl_module.device) - self.started
        self.batches.number += 1
        self.done.put(Step(seconds, float(trainer.callback_metrics["train/loss"])))


class ProjectLoop(Engine):
    """An engine that trains this project's task with Lightning. It uses the keys `rnn`, `precision` and `trainer`.

    If torchrun's environment variables are set, it is one of several ranks. The training runs in a thread that waits
    between epochs, while other engines train.
    """

    task_class = FrameTask
    optimizer_options: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self, folder: str, settings: Settings, config: str) -> None:
        super().__init__(folder, settings, config)
        self.cfg: Any = OmegaConf.create(config)
        self.frames = Frames(self.folder, replace(settings, device="cpu"))  # Lightning moves batches to the device
        self.batches = Batches(self.frames, rank(), int(os.environ.get("WORLD_SIZE", 1)))
        optimizer = partial(torch.optim.SGD, lr=settings.lr, momentum=settings.momentum, **self.optimizer_options)
        self.task = self.task_class(build_project_model(settings, build(self.cfg.rnn)), optimizer, settings.seed)
        self._go: Queue[None] = Queue()
        self._done: Queue[Step | Exception] = Queue()
        self._thread = Thread(target=self._fit, daemon=True)

    def step(self) -> Step:
        if not self._thread.is_alive():
            self._thread.start()
        self._go.put(None)
        trained = self._done.get()
        if isinstance(trained, Exception):
            raise trained
        batches = self.batches
        chunks = sum(len(batch) for batch in self.frames.epoch(batches.number - 1, batches.rank, batches.ranks))
        return trained._replace(frames=chunks * self.settings.chunk)

    def error_rate(self) -> float:
        self.task.model.eval()
        rate = super().error_rate()
        self.task.model.train()
        return rate

    def compute_logits(self, x: torch.Tensor) -> torch.Tensor:
        return self.task.model(x.to(self.task.device), torch.full((len(x),), self.settings.chunk))[0]

    def versions(self) -> dict[str, str]:
        return {"pytorch-lightning": pl.__version__}

    def _fit(self) -> None:
        try:
            silence_lightning()
            gate = EpochGate(self._go, self._done, self.batches)
            devices = self.batches.ranks if self.settings.device == "cuda" else 0
            # there is no validation, because error_rate evaluates the held-out utterances
            warnings.filterwarnings("ignore", ".*defined a `validation_step` but have no.*")
            logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
            loggers = [CSVLogger(mkdtemp(dir=self.folder), name="", version="")]
            callbacks = [Throughput(), gate]
            fitter = trainer(self.cfg, devices, loggers, callbacks, max_epochs=-1, limit_val_batches=0)
            fitter.fit(self.task, self.batches)
        except Exception as error:
            self._done.put(error)


class Minimal(ProjectLoop):
    """A ProjectLoop with MinimalTask and a fused optimizer. precision: replaces the value of the key `precision`."""

    task_class = MinimalTask
    optimizer_options = {"fused": True}  # noqa: RUF012

    def __init__(self, folder: str, settings: Settings, config: str, *, precision: int | str) -> None:
        super().__init__(folder, settings, config)
        self.cfg.precision = precision

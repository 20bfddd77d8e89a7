"""Training loops to compare with RETURNN: plain PyTorch, this project's, and a minimal one."""

import logging
import os
import warnings
from collections.abc import Iterable
from dataclasses import replace
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

from asr_ablations.config.build import build
from asr_ablations.tools.machine import device_clock, rank
from asr_ablations.training.assembly import trainer
from asr_ablations.training.callbacks.throughput import Throughput
from asr_ablations.training.lightning_warnings import silence_lightning
from asr_benchmarks.toolkit.network import Engine, Frames, Network, Settings
from asr_benchmarks.toolkit.task import Batches, FrameTask, MinimalTask, build_project_model
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


class EpochGate(pl.Callback):
    """Begins an epoch for each item in `go`, and puts its Step into `done`."""

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
    """An engine that trains with this project's task and Lightning, and reads `rnn`, `precision` and `trainer`. With
    torchrun's variables it is one of several ranks. Its fit runs in a thread and waits between epochs, so that other
    engines have their turn.
    """

    task_class = FrameTask
    optimizer_options: dict[str, bool] = {}  # noqa: RUF012

    def __init__(self, folder: str, settings: Settings, config: str) -> None:
        super().__init__(folder, settings, config)
        self.cfg: Any = OmegaConf.create(config)
        self.frames = Frames(self.folder, replace(settings, device="cpu"))  # Lightning moves the batches
        self.batches = Batches(self.frames, rank(), int(os.environ.get("WORLD_SIZE", 1)))
        self.task = self.task_class(
            build_project_model(settings, build(self.cfg.rnn)), self._make_optimizer, settings.seed
        )
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

    def _make_optimizer(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        settings = self.settings
        return torch.optim.SGD(parameters, lr=settings.lr, momentum=settings.momentum, **self.optimizer_options)

    def _fit(self) -> None:
        try:
            silence_lightning()
            gate = EpochGate(self._go, self._done, self.batches)
            devices = self.batches.ranks if self.settings.device == "cuda" else 0
            # error_rate replaces validation
            warnings.filterwarnings("ignore", ".*defined a `validation_step` but have no.*")
            logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
            loggers = [CSVLogger(mkdtemp(dir=self.folder), name="", version="")]
            callbacks = [Throughput(), gate]
            fitter = trainer(self.cfg, devices, loggers, callbacks, max_epochs=-1, limit_val_batches=0)
            fitter.fit(self.task, self.batches)
        except Exception as error:
            self._done.put(error)


class Minimal(ProjectLoop):
    """A ProjectLoop with MinimalTask and a fused optimizer. precision: as in the key of that name."""

    task_class = MinimalTask
    optimizer_options = {"fused": True}  # noqa: RUF012

    def __init__(self, folder: str, settings: Settings, config: str, *, precision: int | str) -> None:
        super().__init__(folder, settings, config)
        self.cfg.precision = precision

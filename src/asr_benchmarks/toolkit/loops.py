"""Training loops beside RETURNN: plain PyTorch, this project's, and a minimal one."""

import logging
import os
import warnings
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from queue import Queue
from tempfile import mkdtemp
from threading import Thread
from typing import TYPE_CHECKING, TypedDict

import pytorch_lightning as pl

from asr_ablations.tools.machine import device_clock, rank
from asr_benchmarks.toolkit.network import About, Epoch, Frames, Settings

if TYPE_CHECKING:
    import torch
    from torch import nn

    from asr_ablations.components.model.ds2 import DeepSpeech2
    from asr_benchmarks.toolkit.task import Batches

    pass
    from asr_benchmarks.toolkit.task import FrameTask


class PlainLoop:
    """An engine that trains the Network itself."""

    def __init__(self, folder: str, settings: Settings, config: str) -> None:
        import torch

        from asr_benchmarks.toolkit.network import Network

        self.frames, self.settings = Frames(Path(folder), settings), settings
        self.network = Network(settings).to(settings.device)
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=settings.lr, momentum=settings.momentum)
        self.epochs = 0

    def epoch(self) -> Epoch:
        """Train one epoch."""
        import torch
        from torch.nn.functional import cross_entropy

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
        return {"seconds": device_clock(self.settings.device) - started, "frames": count, "loss": float(total) / count}

    def error_rate(self) -> float:
        """Frame error rate on the held-out frames, in %."""
        from asr_benchmarks.toolkit.network import frame_error_rate

        return frame_error_rate(self.network.eval(), self.frames)

    def about(self) -> About:
        """PyTorch's version, and the memory."""
        import torch

        from asr_benchmarks.toolkit.network import device_memory

        return {"version": f"torch {torch.__version__}", "memory": device_memory(self.settings.device)}


class TimedLoss(TypedDict):
    """Seconds of an epoch, and its mean loss in nats per frame."""

    seconds: float
    loss: float


class EpochGate(pl.Callback):
    """Lets each epoch begin when `go` receives an item, and puts its seconds and mean loss into `done` at its end. An
    exception of the fit is put there by the fit's own thread.
    """

    def __init__(self, go: Queue[None], done: Queue[TimedLoss | Exception], batches: "Batches") -> None:
        self.go, self.done, self.batches = go, done, batches
        self.started = 0.0

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.go.get()
        self.started = device_clock(pl_module.device)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        seconds = device_clock(pl_module.device) - self.started
        self.batches.number += 1
        self.done.put({"seconds": seconds, "loss": float(trainer.callback_metrics["train/loss"])})


class ProjectLoop:
    """An engine. config: the run's, as YAML, of which it reads `rnn`, `precision` and `trainer`. Under the variables of
    torchrun it is one of several ranks, with its share of the batches.

    The fit runs in a thread that waits between epochs, so that other engines can have their turn.
    """

    def __init__(self, folder: str, settings: Settings, config: str) -> None:
        from omegaconf import DictConfig, OmegaConf

        from asr_ablations.config.build import build
        from asr_benchmarks.toolkit.task import Batches, project_model

        cfg = OmegaConf.create(config)
        assert isinstance(cfg, DictConfig)
        self.cfg = cfg
        self.settings, self.folder = settings, Path(folder)
        self.frames = Frames(self.folder, replace(settings, device="cpu"))  # Lightning moves the batches
        self.batches = Batches(self.frames, rank(), int(os.environ.get("WORLD_SIZE", 1)))
        self.task = self.make_task(project_model(settings, build(cfg.rnn)))
        self._go: Queue[None] = Queue()
        self._done: Queue[TimedLoss | Exception] = Queue()
        self._thread = Thread(target=self._fit, daemon=True)

    def make_task(self, model: "DeepSpeech2") -> "FrameTask":
        """The task of the loop for a model."""
        from asr_benchmarks.toolkit.task import FrameTask

        return FrameTask(model, self.make_optimizer, self.settings.seed)

    def make_optimizer(self, parameters: "Iterable[nn.Parameter]") -> "torch.optim.Optimizer":
        """The optimizer of the loop."""
        from torch.optim import SGD

        return SGD(parameters, lr=self.settings.lr, momentum=self.settings.momentum)

    def epoch(self) -> Epoch:
        """Train one epoch. The frames are those of this rank."""
        if not self._thread.is_alive():
            self._thread.start()
        self._go.put(None)
        trained = self._done.get()
        if isinstance(trained, Exception):
            raise trained
        number, rank, ranks = self.batches.number - 1, self.batches.rank, self.batches.ranks
        chunks = sum(len(batch) for batch in self.frames.epoch(number, rank, ranks))
        return {"seconds": trained["seconds"], "frames": chunks * self.settings.chunk, "loss": trained["loss"]}

    def error_rate(self) -> float:
        """Frame error rate on the held-out frames, in %."""
        import torch

        from asr_benchmarks.toolkit.network import frame_error_rate

        model = self.task.model.eval()
        lengths = torch.full((self.settings.batch,), self.settings.chunk)
        rate = frame_error_rate(lambda x: model(x.to(self.task.device), lengths[: len(x)])[0], self.frames)
        model.train()
        return rate

    def about(self) -> About:
        """Lightning's version, and the memory."""
        import pytorch_lightning as pl

        from asr_benchmarks.toolkit.network import device_memory

        return {"version": f"pytorch-lightning {pl.__version__}", "memory": device_memory(self.settings.device)}

    def _fit(self) -> None:
        from pytorch_lightning.loggers import CSVLogger

        from asr_ablations.training.assembly import trainer
        from asr_ablations.training.callbacks.throughput import Throughput
        from asr_ablations.training.ddp import quiet

        pass

        try:
            quiet()
            gate = EpochGate(self._go, self._done, self.batches)
            devices = self.batches.ranks if self.settings.device == "cuda" else 0
            # error_rate validates instead
            warnings.filterwarnings("ignore", ".*defined a `validation_step` but have no.*")
            logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
            loggers = [CSVLogger(mkdtemp(dir=self.folder), name="", version="")]
            callbacks = [Throughput(), gate]
            fitter = trainer(self.cfg, devices, loggers, callbacks, max_epochs=-1, limit_val_batches=0)
            fitter.fit(self.task, self.batches)
        except Exception as error:
            self._done.put(error)


class Minimal(ProjectLoop):
    """An engine as ProjectLoop, with MinimalTask and an optimizer whose step is one kernel.

    precision: as the key of that name; 32 computes what the other engines compute.
    """

    def __init__(self, folder: str, settings: Settings, config: str, *, precision: int | str) -> None:
        super().__init__(folder, settings, config)
        self.cfg.precision = precision

    def make_task(self, model: "DeepSpeech2") -> "FrameTask":
        from asr_benchmarks.toolkit.task import MinimalTask

        return MinimalTask(model, self.make_optimizer, self.settings.seed)

    def make_optimizer(self, parameters: "Iterable[nn.Parameter]") -> "torch.optim.Optimizer":
        from torch.optim import SGD

        return SGD(parameters, lr=self.settings.lr, momentum=self.settings.momentum, fused=True)

"""The project's own training loop: Lightning's Trainer as training/assembly.py makes it, and the framewise loss."""

import logging
import os
import warnings
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from queue import Queue
from tempfile import mkdtemp
from threading import Thread
from typing import TYPE_CHECKING

from asr_ablations.tools.machine import rank
from asr_benchmarks.toolkit.engine import About, Epoch
from asr_benchmarks.toolkit.frames import Frames, Settings

if TYPE_CHECKING:
    import torch
    from torch import nn

    from asr_ablations.components.model.ds2 import DeepSpeech2
    from asr_benchmarks.toolkit.epoch_gate import TimedLoss
    from asr_benchmarks.toolkit.task import FrameTask


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
        from asr_ablations.training.quiet import quiet
        from asr_benchmarks.toolkit.epoch_gate import EpochGate

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

"""The project's own training loop: Lightning's Trainer as assembly.py makes it, the framewise loss, a layer of rnn=."""

import logging
import os
import warnings
from dataclasses import replace
from pathlib import Path
from queue import Queue
from tempfile import mkdtemp
from threading import Thread
from typing import Any

from asr_benchmarks.toolkit.frames import Frames, Settings


class Lightning:
    """An engine: `epoch` trains one, `error_rate` tests. config: the run's, as yaml; `rnn`, `precision`, `trainer` are
    read from it. Under the variables of torchrun it is one of several ranks, with its share of the batches.

    The fit runs in a thread that waits between epochs, so that other engines can have their turn.
    """

    task_name = "FrameTask"

    def __init__(self, folder: str, settings: Settings, config: str) -> None:
        import torch
        from omegaconf import OmegaConf

        from asr_ablations.config.build import build
        from asr_benchmarks.toolkit import task

        self.cfg: Any = OmegaConf.create(config)
        self.settings, self.folder = settings, Path(folder)
        rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        self.frames = Frames(self.folder, replace(settings, device="cpu"))  # Lightning moves batches
        self.batches = task.Batches(self.frames, rank, ranks)
        made = task.model(settings, build(self.cfg.rnn))
        self.task = getattr(task, self.task_name)(made, self._optimizer, settings.seed)
        self._go: Queue[None] = Queue()
        self._done: Queue[Any] = Queue()
        self._thread = Thread(target=self._fit, daemon=True)
        self._torch = torch

    def epoch(self) -> dict[str, float]:
        """seconds, frames of this rank and the mean loss in nats a frame."""
        if not self._thread.is_alive():
            self._thread.start()
        self._go.put(None)
        found = self._done.get()
        if isinstance(found, Exception):
            raise found
        frames = sum(len(chunks) for chunks in self.frames.epoch(self.batches.number - 1, *self._place()))
        return {**found, "frames": frames * self.settings.chunk}

    def error_rate(self) -> float:
        """Of held-out frames, in %."""
        from asr_benchmarks.toolkit.network import frame_error_rate

        model = self.task.model.eval()
        lengths = self._torch.full((self.settings.batch,), self.settings.chunk)
        rate = frame_error_rate(lambda x: model(x.to(self.task.device), lengths[: len(x)])[0], self.frames)
        model.train()
        return rate

    def about(self) -> dict[str, Any]:
        """version; memory: bytes of the GPU, None on a CPU."""
        import pytorch_lightning as pl

        from asr_benchmarks.toolkit.network import device_memory

        return {"version": f"pytorch-lightning {pl.__version__}", "memory": device_memory(self.settings.device)}

    def _place(self) -> tuple[int, int]:
        return self.batches.rank, self.batches.ranks

    def _optimizer(self, parameters: Any) -> Any:
        return self._torch.optim.SGD(parameters, lr=self.settings.lr, momentum=self.settings.momentum)

    def _fit(self) -> None:
        from pytorch_lightning.loggers import CSVLogger

        from asr_ablations.training.assembly import trainer
        from asr_ablations.training.callbacks.throughput import Throughput
        from asr_ablations.training.quiet import quiet
        from asr_benchmarks.toolkit.gate import Gate

        try:
            quiet()
            gate = Gate(self._go, self._done, self.batches)
            devices = self.batches.ranks if self.settings.device == "cuda" else 0
            warnings.filterwarnings("ignore", ".*defined a `validation_step` but have no.*")  # error_rate has
            logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
            loggers = [CSVLogger(mkdtemp(dir=self.folder), name="", version="")]
            limits: dict[str, Any] = {"max_epochs": -1, "limit_val_batches": 0}
            trainer(self.cfg, devices, loggers, [Throughput(), gate], **limits).fit(self.task, self.batches)
        except Exception as error:
            self._done.put(error)

"""Short trainings through Lightning, over the first batches: their waits for the GPU, and their losses."""

import copy
from collections.abc import Sequence
from tempfile import TemporaryDirectory

import pytorch_lightning as pl
import torch
from omegaconf import DictConfig, open_dict
from pytorch_lightning.loggers import CSVLogger

from asr_ablations.data.corpus import Corpus
from asr_ablations.training.assembly import assemble, device_count, trainer
from asr_ablations.training.callbacks.progress import Progress
from asr_ablations.training.callbacks.throughput import Throughput
from asr_benchmarks.gpu.waits import WaitCount

BEFORE = 5
"""Steps that are not counted: what is allocated, chosen and compiled once waits."""


class _Counted(pl.Callback):
    """Counts waits from the step after BEFORE to the last."""

    def __init__(self) -> None:
        self.count = WaitCount()

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: object, n: int) -> None:
        if n == BEFORE:
            torch.cuda.synchronize()
            self.count.__enter__()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.count.__exit__(None, None, None)


class _Losses(pl.Callback):
    """The loss of each step, kept on the device until the end."""

    def __init__(self) -> None:
        self.kept: list[torch.Tensor] = []

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        loss = outputs["loss"] if isinstance(outputs, dict) else outputs
        assert isinstance(loss, torch.Tensor)
        self.kept.append(loss.detach())


def waits(cfg: DictConfig, corpus: Corpus, steps: int) -> dict[str, float]:
    """Waits of the host per training step on the GPU, by the name of the call in CUDA, and `all`."""
    counted = _Counted()
    _train(cfg, corpus, BEFORE + steps, [counted])
    return {
        name: number / steps for name, number in [("all", counted.count.counts.total()), *counted.count.counts.items()]
    }


def losses(cfg: DictConfig, corpus: Corpus, steps: int, gpus: int) -> list[float]:
    """The loss of each of the first steps in exact float32, on one GPU or, with 0, on the CPU."""
    exact = copy.deepcopy(cfg)
    with open_dict(exact):
        exact.gpus, exact.precision, exact.tf32 = gpus, 32, False
    kept = _Losses()
    _train(exact, corpus, steps, [kept])
    return [float(loss) for loss in kept.kept]


def _train(cfg: DictConfig, corpus: Corpus, steps: int, callbacks: Sequence[pl.Callback]) -> None:
    pl.seed_everything(cfg.seed, verbose=False)
    task, data = assemble(cfg, corpus)
    data.setup()
    with TemporaryDirectory() as folder:
        watching = [Throughput(), Progress(False, quiet=True), *callbacks]
        loggers = [CSVLogger(folder, name="", version="")]
        fitter = trainer(
            cfg, device_count(cfg), loggers, watching, max_epochs=1, limit_train_batches=steps, limit_val_batches=0
        )
        fitter.fit(task, data)

"""Fits on the corpus of tones that several test files make: short, in this process, without a run's folder."""

import shutil
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback, ModelCheckpoint
from pytorch_lightning.loggers import CSVLogger

from asr_ablations.config.build import build
from asr_ablations.training.assembly import assemble, trainer
from asr_ablations.training.checkpoints import AtomicCheckpointIO, LastCheckpoint, RestoreState
from asr_ablations.training.signals import StopRequest
from asr_ablations.training.task import CTCTask
from tests.helpers.support import compose, tiny_overrides

SMALL = ("width=8", "layers=2", "gpus=0", "logger=csv", "max_epochs=3")


class KeepEach(pl.Callback):
    """Copies last.ckpt, written before every step, to step=0.ckpt and so on, named by the steps that it holds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_train_batch_start(self, trainer: pl.Trainer, *_: Any) -> None:
        last = self.folder / "last.ckpt"
        if trainer.global_step and last.exists():  # a resumed fit starts without
            shutil.copy(last, self.folder / f"step={trainer.global_step}.ckpt")


def fit(
    corpus: Path, folder: Path, *overrides: str, callbacks: tuple[Callback, ...] = (), resume: Path | None = None
) -> CTCTask:
    """A fit that leaves the checkpoints of all epochs (epoch=0.ckpt …) and steps (step=1.ckpt …) in the folder, and
    metrics.csv.
    """
    cfg = compose(*SMALL, *tiny_overrides(corpus), *overrides)
    task, data = assemble(cfg, build(cfg.data))
    data.setup()
    kept = torch.load(resume, weights_only=True) if resume else None
    if kept is not None:
        data.load_state_dict(kept["position"])
    stop = StopRequest()
    every_step = LastCheckpoint(folder, 0, stop, dict)
    each_epoch = ModelCheckpoint(dirpath=folder, filename="{epoch}", save_top_k=-1)
    around = [every_step, KeepEach(folder), *callbacks, each_epoch, RestoreState(kept)]
    fitter = trainer(cfg, 0, [CSVLogger(str(folder), name="", version="")], around)
    fitter.strategy.checkpoint_io = AtomicCheckpointIO()
    with stop:
        fitter.fit(task, data, ckpt_path=str(resume) if resume else None)
    return task


def model_of(folder: Path, epoch: int) -> dict[str, torch.Tensor]:
    """The model's part of an epoch's checkpoint."""
    kept = torch.load(folder / f"epoch={epoch}.ckpt", weights_only=True)["state_dict"]
    return {key: value for key, value in kept.items() if key.startswith("model.")}

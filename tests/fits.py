"""Fits on the corpus of tones that several test files make: short, in this process, without a record."""

from pathlib import Path
from typing import Any

import torch
from pytorch_lightning.callbacks import Callback, ModelCheckpoint
from pytorch_lightning.loggers import CSVLogger

from asr_ablations.assembly import assemble, trainer
from asr_ablations.config import build
from asr_ablations.task import CTCTask
from support import LIGHTNING_WARNINGS, compose, tiny_overrides

WARNINGS = (*LIGHTNING_WARNINGS, "ignore:The dirpath has changed")  # a resumed fit has a folder of its own
SMALL = ("width=8", "layers=2", "gpus=0", "logger=csv", "dropout=0", "max_epochs=3")
"""No dropout: torch's global stream is not part of a checkpoint of Lightning's."""


def fit(
    corpus: Path, folder: Path, *overrides: str, callbacks: tuple[Callback, ...] = (), resume: Path | None = None
) -> CTCTask:
    """A fit that leaves the checkpoints of all epochs, epoch=0.ckpt and so on, and metrics.csv in the folder."""
    cfg = compose(*SMALL, *tiny_overrides(corpus), *overrides)
    task, data = assemble(cfg, build(cfg.data))
    data.setup()
    checkpoints = ModelCheckpoint(dirpath=folder, filename="{epoch}", save_top_k=-1)
    loggers = [CSVLogger(str(folder), name="", version="")]
    fitter = trainer(cfg, 0, loggers, [*callbacks, checkpoints])
    fitter.fit(task, data, ckpt_path=str(resume) if resume else None)
    return task


def model_of(folder: Path, epoch: int) -> dict[str, torch.Tensor]:
    """The model's part of a checkpoint."""
    kept = torch.load(folder / f"epoch={epoch}.ckpt", weights_only=True)["state_dict"]
    return {key: value for key, value in kept.items() if key.startswith("model.")}


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two state_dicts are bit-equal."""
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)

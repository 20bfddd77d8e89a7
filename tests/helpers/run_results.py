"""Everything of a run that is no time, and whether two runs have the same of it to the bit."""

import csv
import json
import os
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from omegaconf import DictConfig

from asr_ablations.config.plain_keys import check
from asr_ablations.experiment.run import run

TIMES = {"time/seconds", "train/epoch_seconds", "train/audio_hours_per_second", "train/waiting_percent"}
"""The columns of metrics.csv that the machine's speed decides."""


def train(cfg: DictConfig) -> Path:
    """As the command does, in this process."""
    check(cfg)
    return run(cfg)


def results(folder: Path) -> dict[str, Any]:
    """Metrics, losses, utterances, weights, optimizer and summary of a finished run."""
    with (folder / "metrics.csv").open() as file:
        metrics = [{key: value for key, value in row.items() if key not in TIMES} for row in csv.DictReader(file)]
    checkpoints = [torch.load(folder / "checkpoints" / f"{n}.ckpt", weights_only=True) for n in ("last", "best")]
    summary = json.loads((folder / "summary.json").read_text())
    return {
        "metrics": metrics,
        "losses": (folder / "losses.csv").read_text(),
        "utterances": (folder / "utterances.csv").read_text(),
        "weights": [c["state_dict"] for c in checkpoints],
        "optimizer": checkpoints[0]["optimizer_states"],
        "summary": {
            key: summary[key] for key in ("sets", "best_validation_wer", "epochs", "steps", "audio_hours_seen")
        },
        "last": {key: value for key, value in summary["metrics"].items() if key not in TIMES},
    }


def same(a: Any, b: Any) -> bool:
    """Whether two results are equal, tensors bit for bit."""
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


class SignalAt(pl.Callback):
    """Sends this process a signal after a batch of an epoch."""

    def __init__(self, epoch: int, batch: int, number: int) -> None:
        self.when, self.number = (epoch, batch), number

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if (trainer.current_epoch, batch_idx) == self.when:
            os.kill(os.getpid(), self.number)

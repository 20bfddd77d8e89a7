"""The median stopping rule (Golovin et al. 2017, Google Vizier, section 3.2.2), applied to a sweep's run folders."""

import csv
from pathlib import Path
from statistics import mean, median

import pytorch_lightning as pl

from asr_ablations.runs.layout import METRICS
from asr_ablations.runs.status import Pruned, fate_of
from asr_ablations.tools.checks import whole


class MedianStopping(pl.Callback):
    """Raises Pruned between epochs if the run is worse than the finished runs of its sweep.

    The rule computes each finished run's mean value up to the current epoch. A run is worse if its best value so far is
    above the median of these means. Only run folders are read, so a sweep may run on several machines.

    - folder: the run folder
    - key: a column of metrics.csv in which lower is better
    - warm_up: number of epochs that a run must complete before it can be pruned
    - siblings: minimum number of finished runs; no run is pruned if there are fewer

    This callback must come after LastCheckpoint, because a pruned run must be resumable. Raises UsageError if `warm_up`
    or `siblings` is below 1.
    """

    def __init__(self, folder: Path, key: str, *, warm_up: int, siblings: int) -> None:
        self.folder, self.key = folder, key
        self.warm_up, self.siblings = whole("pruning.warm_up", warm_up, 1), whole("pruning.siblings", siblings, 1)

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # the first rank decides for all ranks, because all must end after the same epoch
        if reason := trainer.strategy.broadcast(self.reason() if trainer.is_global_zero else None):
            raise Pruned(reason)

    def reason(self) -> str | None:
        """Return the reason to prune the run, or None to continue training."""
        rates = read_curve(self.folder, self.key)
        epochs = len(rates)
        folders = (path.parent for path in self.folder.parent.glob("*/status.json") if path.parent != self.folder)
        curves = [read_curve(folder, self.key) for folder in folders if fate_of(folder).state == "done"]
        others = [curve[:epochs] for curve in curves if len(curve) >= epochs]
        if epochs < self.warm_up or len(others) < self.siblings:
            return None
        bound = median(mean(other) for other in others)
        if min(rates) <= bound:
            return None
        best = f"best {self.key} {min(rates):.4f} in {epochs} epochs"
        return f"{best}, worse than {bound:.4f}, the median of the means of {len(others)} finished runs"


def read_curve(folder: Path, key: str) -> list[float]:
    """Return the values of a column of metrics.csv in order, or an empty list if the file or column is missing."""
    try:
        with (folder / METRICS).open(newline="", encoding="utf-8") as file:
            return [float(row[key]) for row in csv.DictReader(file) if row.get(key)]
    except FileNotFoundError:
        return []

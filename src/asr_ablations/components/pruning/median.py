"""The median stopping rule (Golovin et al. 2017, Google Vizier, section 3.2.2), over the folders of a sweep."""

import csv
from pathlib import Path
from statistics import mean, median

import pytorch_lightning as pl

from asr_ablations.runs.layout import METRICS
from asr_ablations.runs.status import Pruned, status_of
from asr_ablations.tools.errors import UsageError


class MedianStopping(pl.Callback):
    """Raises Pruned between two epochs if the run's best rate so far is worse than the median, over the finished runs
    of its sweep, of their mean rate up to the same epoch. It asks folders, and no launcher: it works on many machines.

    folder: of the run; key: of metrics.csv, lower is better; warm_up: epochs that every run gets; siblings: so many
    finished runs it takes. Must stand behind LastCheckpoint, so that a run can go on from where it was pruned.

    Raises UsageError for a warm_up or siblings below 1.
    """

    def __init__(self, folder: Path, key: str, *, warm_up: int, siblings: int) -> None:
        for name, value in {"warm_up": warm_up, "siblings": siblings}.items():
            if value < 1:
                raise UsageError(f"pruning.{name}={value}: expected 1 or more")
        self.folder, self.key, self.warm_up, self.siblings = folder, key, warm_up, siblings

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        reason = self.reason() if trainer.is_global_zero else None
        if trainer.world_size > 1:  # all ranks end at the same place
            reason = trainer.strategy.broadcast(reason)
        if reason:
            raise Pruned(reason)

    def reason(self) -> str | None:
        """Why to stop, in words; None to go on."""
        own = curve(self.folder, self.key)
        epochs = len(own)
        others = [rates[:epochs] for rates in self._finished_curves() if len(rates) >= epochs]
        if epochs < self.warm_up or len(others) < self.siblings:
            return None
        bound = median(mean(rates) for rates in others)
        if min(own) <= bound:
            return None
        found = f"{self.key} {min(own):.4f} at best in {epochs} epochs"
        return f"{found}, worse than {bound:.4f}, the median of the means of {len(others)} finished runs"

    def _finished_curves(self) -> list[list[float]]:
        folders = (path.parent for path in self.folder.parent.glob("*/status.json"))
        done = (folder for folder in folders if folder != self.folder and _is_done(folder))
        return [curve(folder, self.key) for folder in done]


def curve(folder: Path, key: str) -> list[float]:
    """The values of a metric in the order in which they were logged; empty where there are none."""
    try:
        with (folder / METRICS).open(newline="", encoding="utf-8") as file:
            return [float(row[key]) for row in csv.DictReader(file) if row.get(key)]
    except FileNotFoundError:
        return []


def _is_done(folder: Path) -> bool:
    return (status_of(folder) or {}).get("status") == "done"

"""What recording the utilisation costs: the same steps with and without it, in alternating blocks of one process."""

import itertools
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytorch_lightning as pl
from omegaconf import DictConfig
from rich.progress import track
from scipy import stats

from asr_ablations.config.build import build
from asr_ablations.tools.errors import choices
from asr_ablations.tools.machine import device_clock
from asr_ablations.training.assembly import assemble, device_count, trainer
from asr_ablations.training.callbacks.utilisation import Utilisation

FEWEST_PAIRS = 6
"""With five, no interval of a median holds 95 %."""


def utilisation_cost(cfg: DictConfig, *, steps: int, pairs: int, interval: float) -> dict[str, Any]:
    """Time with the record over time without it, a ratio a pair of blocks: the median and its 95 % interval, which
    needs no assumption on how a shared machine's noise is distributed (order statistics, binomial ranks).

    seconds: by the wall clock; cpu: by the processor time of all threads of the process, which other processes disturb
    less. Each block with it starts a sampler of its own, which a run does once: what is found is rather too much.
    """
    _check(steps, pairs, interval)
    corpus = build(cfg.data)
    corpus.prepare()
    task, data = assemble(cfg, corpus)
    data.setup()
    batches = list(itertools.islice(data.train_dataloader(), steps))
    with TemporaryDirectory() as folder:
        blocks = Alternating(len(batches), interval, Path(folder))
        loader: Any = Repeated(batches, 2 * (pairs + 1))
        data.train_dataloader = lambda: loader  # type: ignore[method-assign]
        limits = {"max_epochs": 1, "limit_val_batches": 0}
        trainer(cfg, device_count(cfg), [], [blocks], **limits).fit(task, data)
    found = {"steps": len(batches), "pairs": pairs, "interval": interval}
    for number, clock in enumerate(("seconds", "cpu")):
        # the first pair warms up
        with_it, without = ([times[number] for times in blocks.times[on][1:]] for on in (True, False))
        found |= {f"{clock}_without": statistics.median(without), **_ratio(clock, with_it, without)}
    return found


def _check(steps: int, pairs: int, interval: float) -> None:
    for name, value, least in (("steps", steps, 1), ("pairs", pairs, FEWEST_PAIRS)):
        if not isinstance(value, int) or value < least:
            raise choices(f"benchmark.{name}", value, f"a whole number, {least} or more")
    if not isinstance(interval, (int, float)) or interval <= 0:
        raise choices("benchmark.interval", interval, "seconds, above 0")


def _ratio(clock: str, with_it: Sequence[float], without: Sequence[float]) -> dict[str, float]:
    ratios = sorted(a / b for a, b in zip(with_it, without, strict=True))
    rank = int(stats.binom.ppf(0.025, len(ratios), 0.5))
    told = {"ratio": statistics.median(ratios), "ratio_low": ratios[rank - 1], "ratio_high": ratios[-rank]}
    return {f"{clock}_{name}": value for name, value in told.items()}


class Repeated:
    """The same batches over and over, with a bar."""

    def __init__(self, batches: list[Any], times: int) -> None:
        self.batches, self.times = batches, times
        self.batch_sampler = None

    def __len__(self) -> int:
        return len(self.batches) * self.times

    def __iter__(self) -> Iterator[Any]:
        for _ in track(range(self.times), description="blocks"):
            yield from self.batches


class Alternating(pl.Callback):
    """Times blocks of `steps` batches with a Utilisation at work and without: with, without, without, with, …"""

    def __init__(self, steps: int, interval: float, folder: Path) -> None:
        self.steps, self.interval, self.folder = steps, interval, folder
        self.times: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
        self._recorded: Utilisation | None = None
        self._began = (0.0, 0.0)

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        block, place = divmod(batch_idx, self.steps)
        if place == 0:
            self._began = device_clock(pl_module.device), time.process_time()
            if block % 4 in (0, 3):
                self._recorded = Utilisation(self.folder, self.interval)
                self._recorded.on_train_start(trainer, pl_module)
                self._recorded.on_train_epoch_start(trainer, pl_module)
        if self._recorded is not None:
            self._recorded.on_train_batch_start(trainer, pl_module, batch, batch_idx)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        recorded = self._recorded
        if recorded is not None:
            recorded.on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)
        if (batch_idx + 1) % self.steps == 0:
            ended = device_clock(pl_module.device), time.process_time()
            spent = ended[0] - self._began[0], ended[1] - self._began[1]
            self.times[recorded is not None].append(spent)
            self._recorded = None
            if recorded is not None:
                recorded.close()

"""Cost of recording the utilisation: the same steps with and without it, in alternating blocks of one process."""

import itertools
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytorch_lightning as pl
from omegaconf import DictConfig
from rich.progress import track
from scipy import stats

from asr_ablations.config.build import build
from asr_ablations.data.batch import Batch
from asr_ablations.tools.checks import is_number, whole
from asr_ablations.tools.machine import device_clock
from asr_ablations.training.assembly import assemble, device_count, trainer
from asr_ablations.training.callbacks.utilisation import Utilisation
from asr_benchmarks.tables import Result
from asr_verdicts.errors import choices

FEWEST_PAIRS = 6
"""With five pairs, no interval of a median holds 95 %."""


def utilisation_cost(cfg: DictConfig, *, steps: int, pairs: int, interval: float) -> Result:
    """Time with the record over time without it, one ratio per pair of blocks: the median and its 95 % interval, which
    needs no assumption on how a shared machine's noise is distributed (order statistics, binomial ranks).

    seconds: by the wall clock; cpu: by the processor time of all threads of the process, which other processes disturb
    less. Each block with the record starts its own sampler, which a run does only once: the ratio is rather too large.
    """
    _check(steps, pairs, interval)
    corpus = build(cfg.data)
    corpus.prepare()
    task, data = assemble(cfg, corpus)
    data.setup()
    batches = list(itertools.islice(data.train_dataloader(), steps))
    with TemporaryDirectory() as folder:
        blocks = Alternating(len(batches), interval, Path(folder))
        loader = Repeated(batches, 2 * (pairs + 1))
        data.train_dataloader = lambda: loader  # type: ignore[assignment, method-assign, return-value]
        trainer(cfg, device_count(cfg), [], [blocks], max_epochs=1, limit_val_batches=0).fit(task, data)
    figures: dict[str, object] = {"steps": len(batches), "pairs": pairs, "interval": interval}
    for number, clock in enumerate(("seconds", "cpu")):
        # the first pair warms up
        recorded, without = ([times[number] for times in blocks.times[on][1:]] for on in (True, False))
        ratios = {f"{clock}_{name}": value for name, value in ratio_interval(recorded, without).items()}
        figures |= {f"{clock}_without": statistics.median(without), **ratios}
    return Result(figures)


def _check(steps: int, pairs: int, interval: float) -> None:
    whole("benchmark.steps", steps, 1)
    whole("benchmark.pairs", pairs, FEWEST_PAIRS)
    if not (is_number(interval) and interval > 0):
        raise choices("benchmark.interval", interval, "seconds, above 0")


def ratio_interval(above: Sequence[float], below: Sequence[float]) -> dict[str, float]:
    """ratio: median of the ratios above / below, pair by pair; ratio_low and ratio_high: its 95 % interval."""
    ratios = sorted(a / b for a, b in zip(above, below, strict=True))
    rank = int(stats.binom.ppf(0.025, len(ratios), 0.5))
    return {"ratio": statistics.median(ratios), "ratio_low": ratios[rank - 1], "ratio_high": ratios[-rank]}


class Repeated:
    """Yields the same batches several times, with a progress bar."""

    def __init__(self, batches: list[Batch], times: int) -> None:
        self.batches, self.times = batches, times
        self.batch_sampler = None

    def __len__(self) -> int:
        return len(self.batches) * self.times

    def __iter__(self) -> Iterator[Batch]:
        for _ in track(range(self.times), description="blocks"):
            yield from self.batches


class Alternating(pl.Callback):
    """Times blocks of `steps` batches while a Utilisation records and while none does: with, without, without, with, …

    times: wall clock and processor seconds of the blocks, with the record (True) and without it (False).
    """

    def __init__(self, steps: int, interval: float, folder: Path) -> None:
        self.steps, self.interval, self.folder = steps, interval, folder
        self.times: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
        self._recorder: Utilisation | None = None
        self._began = (0.0, 0.0)

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Batch, batch_idx: int
    ) -> None:
        block, place = divmod(batch_idx, self.steps)
        if place == 0:
            self._began = device_clock(pl_module.device), time.process_time()
            if block % 4 in (0, 3):
                self._recorder = Utilisation(self.folder, self.interval)
                self._recorder.on_train_start(trainer, pl_module)
                self._recorder.on_train_epoch_start(trainer, pl_module)
        if self._recorder is not None:
            self._recorder.on_train_batch_start(trainer, pl_module, batch, batch_idx)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: object, batch: Batch, batch_idx: int
    ) -> None:
        recorder = self._recorder
        if recorder is not None:
            recorder.on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)
        if (batch_idx + 1) % self.steps == 0:
            ended = device_clock(pl_module.device), time.process_time()
            spent = ended[0] - self._began[0], ended[1] - self._began[1]
            self.times[recorder is not None].append(spent)
            self._recorder = None
            if recorder is not None:
                recorder.close()

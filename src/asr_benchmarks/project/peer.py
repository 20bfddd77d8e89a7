"""Compare this project's training with the usual port of DeepSpeech2 on the same audio, one change at a time."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from omegaconf import DictConfig

from asr_ablations.config.build import build
from asr_ablations.data.batch import Count
from asr_ablations.data.datamodule import SpeechLoader
from asr_ablations.tools.machine import device_clock
from asr_ablations.tools.random_streams import generator
from asr_benchmarks.project.port import PortBatch, PortData, port_loader, usual_port
from asr_benchmarks.project.training import BareTraining, name_device, prepare_corpus
from asr_benchmarks.tables import Result, Row, fill_row
from asr_benchmarks.timing import check_counts, in_turn, noise_notes
from asr_verdicts.errors import UsageError

FIGURES = "batch | utterances | model_width | device | R | ours / port"
COLUMNS = "way | R | ms per batch | spread % | padding % | gain | ratio"
"""Columns of `ways`. R: hours of audio per second. gain: R relative to the row above. ratio: R relative to the port."""


def against_the_port(cfg: DictConfig, *, batches: int, repeats: int, warmup: int, budget: float | None) -> Result:
    """Measure the throughput of four ways to train on the same utterances, in hours of audio per second.

    The first row is the usual port, and the last row is this project. Each row replaces one component of the row above.
    All rows have the same weights, precision, loss and optimizer.
    """
    check_counts(batches=batches)
    ways = Ways(cfg, batches)
    timings = in_turn(ways.passes(), steps=repeats, warmup=warmup, budget=budget, title="passes")
    rows: list[Row] = []
    for name, timing in timings.items():
        rate = ways.hours / timing.median
        padding = ways.padding(ways.ordered if rows else ways.random)
        ratios = (rate / rows[-1]["R"], rate / rows[0]["R"]) if rows else (1.0, 1.0)
        milliseconds = 1000 * timing.median / len(ways.random)
        rows.append(fill_row(COLUMNS, name, rate, milliseconds, timing.spread, padding, *ratios))
    sizes = (cfg.batch.size, len(ways.chosen), cfg.width, name_device(ways.device))
    figures = fill_row(FIGURES, *sizes, rows[-1]["R"], rows[-1]["ratio"])
    return Result(figures, {"ways": rows}, noise_notes(timings))


class Ways(BareTraining):
    """Loaders and steps for the four ways to train. Raises UsageError if the port does not support the model."""

    def __init__(self, cfg: DictConfig, batches: int) -> None:
        super().__init__(cfg, prepare_corpus(cfg))
        port = usual_port(self.task, cfg.precision)
        if port is None:
            raise UsageError("benchmark=peer: the usual port lacks this model; use model=ds2 norm=batch rnn=lstm")
        self.port, self.speech = port, self.data.sets["train"]
        self.port_data = PortData(self.speech.utterances, self.task.alphabet, self.features)
        size = cfg.batch.size
        random = generator(cfg.seed, "peer")
        self.chosen = random.permutation(len(self.speech))[: batches * size]
        self.random = [self.chosen[start : start + size].tolist() for start in range(0, len(self.chosen), size)]
        durations = self.speech.durations[self.chosen]
        ordered = build(cfg.order)(durations, Count(size, 1), 1, random)  # epoch 1, because epoch 0 may be sorted
        self.ordered = [self.chosen[batch].tolist() for batch in ordered]

    @property
    def hours(self) -> float:
        return float(self.speech.durations[self.chosen].sum()) / 3600

    def padding(self, batches: Sequence[list[int]]) -> float:
        """Return the share of padding in the padded batches, in %."""
        longest = [self.speech.durations[batch].max() * len(batch) for batch in batches]
        return 100 * (1 - 3600 * self.hours / float(np.sum(longest)))

    def passes(self) -> dict[str, Callable[[], float]]:
        """Return one function per way, which trains once on all utterances and returns the seconds it took."""
        workers, port_step = self.cfg.workers, self.make_step(self.port, _read_features)
        ours = SpeechLoader(self.speech, self.ordered, workers, pinned=self.device.type == "cuda")
        loaders = [port_loader(self.port_data, batches, workers) for batches in (self.random, self.ordered)]
        return {
            "usual port": partial(_time, self.device, loaders[0], port_step),
            "+ our batches": partial(_time, self.device, loaders[1], port_step),
            "+ our input": partial(_time, self.device, ours, self.make_step(self.port)),
            "+ our layers": partial(_time, self.device, ours, self.make_step(self.task.model)),
        }


def _read_features(batch: PortBatch) -> tuple[torch.Tensor, torch.Tensor]:
    return batch.features, batch.lengths


def _time(device: torch.device, loader: Iterable[Any], step: Callable[[Any], None]) -> float:
    started = device_clock(device)
    for batch in loader:
        step(batch.to(device))
    return device_clock(device) - started

"""Training with us against the usual port of DeepSpeech2, over the same audio, what makes the difference one by one."""

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from omegaconf import DictConfig

from asr_ablations.config.build import build
from asr_ablations.data.batch_size import Count
from asr_ablations.data.loader import SpeechLoader
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.machine import device_clock
from asr_ablations.tools.seeds import generator
from asr_ablations.training.assembly import assemble, device_count, trainer
from asr_benchmarks.project.port_input import PortBatch, PortData, port_loader
from asr_benchmarks.project.step import stepper, usual_port
from asr_benchmarks.timing import Timing, check, in_turn, noise

Batches = Sequence[Sequence[int]]


def against_the_port(
    cfg: DictConfig, *, batches: int, repeats: int, warmup: int, budget: float | None
) -> dict[str, Any]:
    """R (hours of valid audio trained a second) of four ways through the same utterances, reading them included.

    From the usual port (random batches, files decoded and features computed on the CPU an utterance at a time, layers
    that pack and unpack, masks by a loop over utterances, normalisation over padding) to ours, one change a row:
    `gain` is the ratio to the row before, `ratio` to the port. Same weights, precision, loss and optimizer everywhere.
    Raises UsageError where the port has no such model.
    """
    check(batches=batches)
    device = torch.device("cuda" if device_count(cfg) else "cpu")
    ways = Ways(cfg, device, batches)
    variants = {name: partial(_seconds, device, *way) for name, way in ways.all().items()}
    timings = in_turn(variants, steps=repeats, warmup=warmup, budget=budget, title="passes")
    rows = _rows(timings, ways)
    return {
        "batch": cfg.batch.size,
        "utterances": len(ways.chosen),
        "model_width": cfg.width,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU",
        "R": rows[-1]["R"],
        "ours / port": rows[-1]["ratio"],
        "ways": rows,
        "notes": noise(timings),
    }


class Ways:
    """Loader and training step of each row, over the utterances `chosen`."""

    def __init__(self, cfg: DictConfig, device: torch.device, batches: int) -> None:
        corpus = build(cfg.data)
        corpus.prepare()
        self.task, data = assemble(cfg, corpus)
        data.setup()
        plugin = trainer(cfg, device_count(cfg), [], []).precision_plugin
        plugin.convert_module(self.task)
        features = copy.deepcopy(self.task.features)
        self.task.to(device).train()
        self.precision, self.device, self.workers = plugin.forward_context, device, cfg.workers
        port = usual_port(self.task, cfg.precision)
        if port is None:
            raise UsageError("benchmark=peer: the usual port has no such model: try model=ds2 norm=batch rnn=lstm")
        self.port, self.speech = port, data.sets["train"]
        self.data = PortData(self.speech.utterances, self.task.alphabet, features)
        size = cfg.batch.size
        drawn = generator(cfg.seed, "peer")
        self.chosen = drawn.permutation(len(self.speech))[: batches * size]
        self.random = [self.chosen[at : at + size].tolist() for at in range(0, len(self.chosen), size)]
        durations = self.speech.durations[self.chosen]
        ordered = build(cfg.order)(durations, Count(size, 1), 1, drawn)  # epoch 1: a first one may be sorted
        self.ordered = [self.chosen[batch].tolist() for batch in ordered]

    @property
    def hours(self) -> float:
        return float(self.speech.durations[self.chosen].sum()) / 3600

    def padding(self, batches: Batches) -> float:
        """%: of all samples of the padded batches."""
        longest = [self.speech.durations[list(batch)].max() * len(batch) for batch in batches]
        return 100 * (1 - 3600 * self.hours / float(np.sum(longest)))

    def all(self) -> dict[str, tuple[Any, Callable[[Any], None]]]:
        theirs = partial(stepper, self.task, precision=self.precision, features=_ready)
        read = partial(port_loader, self.data, workers=self.workers)
        ours = SpeechLoader(self.speech, self.ordered, self.workers)
        return {
            "usual port": (read(batches=self.random), theirs(model=self.port)),
            "+ our batches": (read(batches=self.ordered), theirs(model=self.port)),
            "+ our input": (ours, stepper(self.task, self.port, self.precision)),
            "+ our layers": (ours, stepper(self.task, self.task.model, self.precision)),
        }


def _rows(timings: dict[str, Timing], ways: Ways) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for name, timing in timings.items():
        speed = ways.hours / timing.median
        rows.append(
            {
                "way": name,
                "R": speed,
                "ms a batch": 1000 * timing.median / len(ways.random),
                "spread %": timing.spread,
                "padding %": ways.padding(ways.ordered if rows else ways.random),
                "gain": speed / rows[-1]["R"] if rows else 1.0,
                "ratio": speed / rows[0]["R"] if rows else 1.0,
            }
        )
    return rows


def _ready(batch: PortBatch) -> tuple[torch.Tensor, torch.Tensor]:
    return batch.features, batch.lengths


def _seconds(device: torch.device, loader: Any, step: Callable[[Any], None]) -> float:
    started = device_clock(device)
    for batch in loader:
        step(batch.to(device))
    return device_clock(device) - started

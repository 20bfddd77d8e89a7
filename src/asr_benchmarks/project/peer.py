"""This project's training against the usual port of DeepSpeech2, over the same audio, one difference at a time."""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypedDict

import numpy as np
import torch
from omegaconf import DictConfig

from asr_ablations.config.build import build
from asr_ablations.data.batch import Count
from asr_ablations.data.dataset import SpeechLoader
from asr_ablations.tools.machine import device_clock
from asr_ablations.tools.random_streams import generator
from asr_ablations.training.assembly import assemble, device_count, trainer
from asr_benchmarks.project.bare_step import B, stepper
from asr_benchmarks.project.port import PortBatch, PortData, port_loader, usual_port
from asr_benchmarks.tables import Result
from asr_benchmarks.timing import Timing, check_counts, in_turn, noise_notes
from asr_verdicts.errors import UsageError

Batches = Sequence[list[int]]
"""The indices of the utterances of each batch."""

WayRow = TypedDict(
    "WayRow",
    {
        "way": str,
        "R": float,
        "ms per batch": float,
        "spread %": float,
        "padding %": float,
        "gain": float,
        "ratio": float,
    },
)
"""One way to train. R: hours of audio per second; gain: R over that of the row before; ratio: over that of the port."""


def against_the_port(cfg: DictConfig, *, batches: int, repeats: int, warmup: int, budget: float | None) -> Result:
    """R (hours of valid audio trained per second) of four ways through the same utterances, reading them included.

    The first way is the usual port: random batches, files decoded and features computed on the CPU one utterance at a
    time, layers that pack and unpack, masks by a loop over utterances, normalisation over padding. The last is this
    project's; each row changes one thing. Weights, precision, loss and optimizer are the same everywhere.

    Raises UsageError for a model that the port does not have.
    """
    check_counts(batches=batches)
    device = torch.device("cuda" if device_count(cfg) else "cpu")
    ways = Ways(cfg, device, batches)
    timings = in_turn(ways.passes(), steps=repeats, warmup=warmup, budget=budget, title="passes")
    rows = _rows(timings, ways)
    figures: dict[str, object] = {
        "batch": cfg.batch.size,
        "utterances": len(ways.chosen),
        "model_width": cfg.width,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU",
        "R": rows[-1]["R"],
        "ours / port": rows[-1]["ratio"],
    }
    return Result(figures, {"ways": rows}, noise_notes(timings))


class Ways:
    """Loaders and training steps of the four ways. chosen: indices of the utterances, the same for all of them.

    Raises UsageError for a model that the port does not have.
    """

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
        self.scaler = getattr(plugin, "scaler", None)
        port = usual_port(self.task, cfg.precision)
        if port is None:
            raise UsageError("benchmark=peer: the usual port has no such model: try model=ds2 norm=batch rnn=lstm")
        self.port, self.speech = port, data.sets["train"]
        self.data = PortData(self.speech.utterances, self.task.alphabet, features)
        size = cfg.batch.size
        drawn = generator(cfg.seed, "peer")
        self.chosen = drawn.permutation(len(self.speech))[: batches * size]
        self.random = [self.chosen[start : start + size].tolist() for start in range(0, len(self.chosen), size)]
        durations = self.speech.durations[self.chosen]
        ordered = build(cfg.order)(durations, Count(size, 1), 1, drawn)  # epoch 1: the first may be sorted
        self.ordered = [self.chosen[batch].tolist() for batch in ordered]

    @property
    def hours(self) -> float:
        return float(self.speech.durations[self.chosen].sum()) / 3600

    def padding(self, batches: Batches) -> float:
        """Padding in % of all samples of the padded batches."""
        longest = [self.speech.durations[batch].max() * len(batch) for batch in batches]
        return 100 * (1 - 3600 * self.hours / float(np.sum(longest)))

    def passes(self) -> dict[str, Callable[[], float]]:
        """For each way, a function that trains on all utterances once and returns the seconds."""
        ours = SpeechLoader(self.speech, self.ordered, self.workers, pinned=self.device.type == "cuda")
        port_step = stepper(self.task, self.port, self.precision, _features, self.scaler)
        features = self.task.normalised_features
        step = partial(stepper, self.task, precision=self.precision, features=features, scaler=self.scaler)
        return {
            "usual port": partial(_seconds, self.device, self._port_loader(self.random), port_step),
            "+ our batches": partial(_seconds, self.device, self._port_loader(self.ordered), port_step),
            "+ our input": partial(_seconds, self.device, ours, step(model=self.port)),
            "+ our layers": partial(_seconds, self.device, ours, step(model=self.task.model)),
        }

    def _port_loader(self, batches: Batches) -> Iterable[PortBatch]:
        return port_loader(self.data, batches, self.workers)


def _rows(timings: Mapping[str, Timing], ways: Ways) -> list[WayRow]:
    rows: list[WayRow] = []
    for name, timing in timings.items():
        rate = ways.hours / timing.median
        rows.append(
            {
                "way": name,
                "R": rate,
                "ms per batch": 1000 * timing.median / len(ways.random),
                "spread %": timing.spread,
                "padding %": ways.padding(ways.ordered if rows else ways.random),
                "gain": rate / rows[-1]["R"] if rows else 1.0,
                "ratio": rate / rows[0]["R"] if rows else 1.0,
            }
        )
    return rows


def _features(batch: PortBatch) -> tuple[torch.Tensor, torch.Tensor]:
    return batch.features, batch.lengths


def _seconds(device: torch.device, loader: Iterable[B], step: Callable[[B], None]) -> float:
    started = device_clock(device)
    for batch in loader:
        step(batch.to(device))
    return device_clock(device) - started

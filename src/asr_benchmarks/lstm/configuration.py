"""The networks of Braun2018 table 3: their sizes, and the weights and the batch that every implementation gets."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Protocol

import numpy as np

from asr_ablations.tools.checks import is_whole, number, switch, whole
from asr_benchmarks.worker import Worker
from asr_verdicts.errors import choices

LOSSES = ("ce", "ctc")

Direction = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Weights of one LSTM for inputs (4H, D) and last state (4H, H), bias (4H); gates in torch's order i, f, g, o."""


@dataclass(frozen=True)
class Configuration:
    """A row of table 3. frames: of the shortest and of the longest utterance; labels: per utterance."""

    name: str
    layers: int
    units: int
    bidirectional: bool
    features: int
    batch: int
    frames: list[int]
    loss: str
    outputs: int
    labels: int

    @property
    def variable(self) -> bool:
        """True if utterances differ in length."""
        return self.frames[0] < self.frames[1]

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def input_sizes(self) -> list[int]:
        """The number of inputs D of each layer."""
        return [self.features] + [self.units * self.directions] * (self.layers - 1)

    def scaled(self, scale: float) -> "Configuration":
        """The configuration with units, batch, frames and labels times `scale`, none below 1. CTC keeps enough frames
        for its labels.
        """
        if scale == 1:
            return self
        few = {name: max(1, round(scale * getattr(self, name))) for name in ("units", "batch", "labels")}
        least, most = (max(2, round(scale * count)) for count in self.frames)
        return replace(self, **few, frames=[least, most])


@dataclass(frozen=True)
class Batch:
    """x (B, T, D), lengths (B,), longest first, and labels (B, L) from 1 on, since 0 is the blank; for cross-entropy
    labels (B, 1) from 0 on.
    """

    x: np.ndarray
    lengths: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class Weights:
    """layers: the directions of each, forward first; output: (outputs, H · directions); bias: (outputs,)."""

    layers: list[list[Direction]]
    output: np.ndarray
    bias: np.ndarray


def choose(networks: Mapping[str, Mapping[str, object]], chosen: list[str], scale: float) -> list[Configuration]:
    """The chosen configurations at the scale. Raises UsageError for a wrong key or value of benchmark.networks."""
    number("benchmark.scale", scale, above=0)
    if not chosen or not all(name in networks for name in chosen):
        raise choices("benchmark.configurations", chosen, f"one or more of {', '.join(networks)}")
    return [_checked(name, networks[name]).scaled(scale) for name in chosen]


def _checked(key: str, values: Mapping[str, object]) -> Configuration:
    where = f"benchmark.networks.{key}"
    expected = [field.name for field in fields(Configuration)]
    if set(values) != set(expected):
        raise choices(where, sorted(values), f"the keys {', '.join(expected)}")
    sizes = ("layers", "units", "features", "batch", "outputs", "labels")
    counts = {name: whole(f"{where}.{name}", values[name], 1) for name in sizes}
    bidirectional, loss = switch(f"{where}.bidirectional", values["bidirectional"]), str(values["loss"])
    if loss not in LOSSES:
        raise choices(f"{where}.loss", loss, LOSSES)
    frames = _frames(where, values["frames"])
    configuration = Configuration(
        name=str(values["name"]), bidirectional=bidirectional, frames=frames, loss=loss, **counts
    )
    _check_labels(where, configuration)
    return configuration


def _frames(where: str, value: object) -> list[int]:
    if isinstance(value, list) and len(value) == 2 and all(is_whole(count, 1) for count in value):
        shortest, longest = value
        if shortest <= longest:
            return [shortest, longest]
    raise choices(f"{where}.frames", value, "two whole numbers, 1 or more, the second no smaller")


def _check_labels(where: str, configuration: Configuration) -> None:
    shortest, labels = configuration.frames[0], configuration.labels
    if configuration.loss == "ctc" and not (2 * labels <= shortest and configuration.outputs > 1):
        raise choices(f"{where}.labels", labels, f"half of the {shortest} frames at most, and 2 outputs or more")
    if configuration.loss == "ce" and (labels != 1 or configuration.variable):
        raise choices(f"{where}.labels", labels, "1 with loss=ce, and frames of one length")


def draw_weights(configuration: Configuration, seed: int) -> Weights:
    """Draw weights uniformly within ±1/√H, as torch does; the bias is the sum of the two that torch has."""
    generator = np.random.default_rng([seed, 0])
    units, bound = configuration.units, configuration.units**-0.5

    def draw(*shape: int) -> np.ndarray:
        return generator.uniform(-bound, bound, shape).astype(np.float32)

    layers = [
        [
            (draw(4 * units, size), draw(4 * units, units), draw(4 * units) + draw(4 * units))
            for _ in range(configuration.directions)
        ]
        for size in configuration.input_sizes
    ]
    return Weights(layers, draw(configuration.outputs, units * configuration.directions), draw(configuration.outputs))


def draw_batch(configuration: Configuration, seed: int) -> Batch:
    """Draw features from N(0, 1), zeros past each length; at least one utterance has full length (Braun2018 §3.3)."""
    generator = np.random.default_rng([seed, 1])
    (least, most), size = configuration.frames, configuration.batch
    lengths = np.sort(generator.integers(least, most + 1, size))[::-1].astype(np.int64)
    lengths[0] = most
    x = generator.standard_normal((size, most, configuration.features), dtype=np.float32)
    x *= (np.arange(most) < lengths[:, None])[..., None]
    lowest = int(configuration.loss == "ctc")  # 0 is the blank
    labels = generator.integers(lowest, configuration.outputs, (size, configuration.labels))
    return Batch(x, lengths, labels)


class Training(Protocol):
    """Trains one configuration. An implementation's `model` is called with configuration, seed and device, cpu or cuda.

    Weights and batch are those of draw_weights and draw_batch for the seed, products are in full float32, and Adam is
    the framework's own with its defaults. Raises ValueError for a configuration that it cannot compute.
    """

    def outputs(self) -> np.ndarray:
        """Logits of the batch: (B, T, V) for CTC, (B, V) for cross-entropy."""

    def step(self) -> tuple[float, float]:
        """Seconds from the batch in the host's memory to updated weights, synchronised, and the loss before it."""

    def device_memory(self) -> int | None:
        """Peak memory of the GPU in bytes; None on a CPU, or if the framework does not report it."""

    def versions(self) -> dict[str, str]:
        """Versions of the framework's packages."""


@dataclass(frozen=True)
class Implementation:
    """packages: those that it imports; environment: variables of its process; published: its counterpart in
    Braun2018 table 2.
    """

    model: partial[Training]
    packages: list[str] = field(default_factory=list)
    environment: Mapping[str, str] = field(default_factory=dict)
    published: str | None = None

    def start(self, configuration: Configuration, seed: int, device: str, threads: int | None) -> Worker:
        """Make the model in a process of its own. Raises WorkerError for what the model raises."""
        make = partial(self.model, configuration=configuration, seed=seed, device=device)
        return Worker(make, threads, {**_devices(device), **self.environment})


def _devices(device: str) -> dict[str, str]:
    """Variables that hide the GPU while the CPU is measured, since frameworks would use it, and that keep a framework
    from taking the whole memory of a GPU, since several run at a time.
    """
    if device == "cpu":
        return {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}
    return {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}

"""The networks of papers/000, table 3: sizes, and the weights and the batch that every implementation is given."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from asr_ablations.tools.errors import choices

LOSSES = ("ce", "ctc")

Direction = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Of one LSTM: of the inputs (4H, D), of the last state (4H, H), bias (4H); gates in torch's order i, f, g, o."""


@dataclass(frozen=True)
class Configuration:
    """One row of table 3. frames: the least and the most of an utterance; labels: of an utterance."""

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
        """Whether utterances differ in length."""
        return self.frames[0] < self.frames[1]

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def input_sizes(self) -> list[int]:
        """D of each layer."""
        return [self.features] + [self.units * self.directions] * (self.layers - 1)

    def scaled(self, scale: float) -> "Configuration":
        """Units, batch, frames and labels times `scale`, none below 1; labels of CTC stay few enough for the frames."""
        if scale == 1:
            return self
        few = {name: max(1, round(scale * getattr(self, name))) for name in ("units", "batch", "labels")}
        least, most = (max(2, round(scale * count)) for count in self.frames)
        return replace(self, **few, frames=[least, most])


@dataclass(frozen=True)
class Batch:
    """x (B, T, D), lengths (B,), longest first, and labels (B, L) from 1 on, blank being 0; of cross-entropy (B, 1)
    from 0 on.
    """

    x: np.ndarray
    lengths: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class Weights:
    """layers: of each its directions, forward first. output (outputs, H · directions), bias (outputs,)."""

    layers: list[list[Direction]]
    output: np.ndarray
    bias: np.ndarray


def chosen_of(networks: Mapping[str, Mapping[str, Any]], chosen: list[str], scale: float) -> list[Configuration]:
    """The chosen ones. Raises UsageError for a wrong key or value of benchmark.networks."""
    if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not scale > 0:
        raise choices("benchmark.scale", scale, "a number above 0")
    if not chosen or not all(name in networks for name in chosen):
        raise choices("benchmark.configurations", chosen, f"one or more of {', '.join(networks)}")
    return [_checked(name, networks[name]).scaled(scale) for name in chosen]


def _checked(key: str, values: Mapping[str, Any]) -> Configuration:
    where = f"benchmark.networks.{key}"
    wanted = [field.name for field in fields(Configuration)]
    if set(values) != set(wanted):
        raise choices(where, sorted(values), f"the keys {', '.join(wanted)}")
    for name in ("layers", "units", "features", "batch", "outputs", "labels"):
        if not _whole(values[name]):
            raise choices(f"{where}.{name}", values[name], "a whole number, 1 or more")
    if not isinstance(values["bidirectional"], bool):
        raise choices(f"{where}.bidirectional", values["bidirectional"], "true or false")
    if values["loss"] not in LOSSES:
        raise choices(f"{where}.loss", values["loss"], LOSSES)
    _check_frames(where, values)
    return Configuration(**values)


def _check_frames(where: str, values: Mapping[str, Any]) -> None:
    frames, labels, loss = values["frames"], values["labels"], values["loss"]
    if not (isinstance(frames, list) and len(frames) == 2 and all(map(_whole, frames)) and frames[0] <= frames[1]):
        raise choices(f"{where}.frames", frames, "two whole numbers, 1 or more, the second no smaller")
    if loss == "ctc" and not (2 * labels <= frames[0] and values["outputs"] > 1):
        raise choices(f"{where}.labels", labels, f"half of the {frames[0]} frames at most, and 2 outputs or more")
    if loss == "ce" and (labels != 1 or frames[0] != frames[1]):
        raise choices(f"{where}.labels", labels, "1 with loss=ce, and frames of one length")


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def draw_weights(configuration: Configuration, seed: int) -> Weights:
    """Uniform within ±1/√H, as torch draws them, and one bias where torch has two."""
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
    """Features from N(0, 1), zeros past each length; one utterance at least has the full length (papers/000 §3.3)."""
    generator = np.random.default_rng([seed, 1])
    (least, most), size = configuration.frames, configuration.batch
    lengths = np.sort(generator.integers(least, most + 1, size))[::-1].astype(np.int64)
    lengths[0] = most
    x = generator.standard_normal((size, most, configuration.features), dtype=np.float32)
    x *= (np.arange(most) < lengths[:, None])[..., None]
    lowest = int(configuration.loss == "ctc")  # 0 is the blank
    labels = generator.integers(lowest, configuration.outputs, (size, configuration.labels))
    return Batch(x, lengths, labels)

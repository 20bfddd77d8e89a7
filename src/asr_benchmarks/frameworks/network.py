"""Descriptions of networks as lists of layers, with weights and samples that are the same in every framework.

The axes of arrays are in TensorFlow's order: images (B, height, width, channels), matrices (inputs, outputs), filters
(size, size, inputs, outputs). The gates of an LSTM are in the order input, forget, cell, output.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

Shape: TypeAlias = tuple[int, ...]
Weight: TypeAlias = tuple[Shape, float, float]
"""Shape of a weight, mean and standard deviation of its initial values."""

LEARNING_RATE = 0.01  # of plain gradient descent in all frameworks
EPSILON, MOMENTUM = 1e-5, 0.1  # of batch norm in all frameworks, as in PyTorch


class Layer:
    """A layer. It maps a sample of shape `shape` to a sample of shape `out(shape)`."""

    def weights(self) -> dict[str, Weight]:
        return {}

    def out(self, shape: Shape) -> Shape:
        return shape

    def operations(self, shape: Shape) -> float:
        """Count the multiplications and additions of matrix products in the forward pass of one sample."""
        return 0.0


@dataclass(frozen=True)
class Dense(Layer):
    """Multiplies the last axis by a matrix, and adds a bias."""

    inputs: int
    outputs: int

    def weights(self) -> dict[str, Weight]:
        kernel = (self.inputs, self.outputs)
        return {"kernel": (kernel, 0.0, math.sqrt(2 / self.inputs)), "bias": ((self.outputs,), 0.0, 0.01)}

    def out(self, shape: Shape) -> Shape:
        return (*shape[:-1], self.outputs)

    def operations(self, shape: Shape) -> float:
        return 2.0 * math.prod(shape) * self.outputs


@dataclass(frozen=True)
class Convolution(Layer):
    """A two-dimensional convolution, padded with `padding` zeros on each side."""

    inputs: int
    outputs: int
    size: int
    stride: int = 1
    padding: int = 0
    bias: bool = True

    def weights(self) -> dict[str, Weight]:
        fan_in = self.size**2 * self.inputs
        kernel = ((self.size, self.size, self.inputs, self.outputs), 0.0, math.sqrt(2 / fan_in))
        return {"kernel": kernel, **({"bias": ((self.outputs,), 0.0, 0.01)} if self.bias else {})}

    def out(self, shape: Shape) -> Shape:
        return (*_places(shape, self.size, self.stride, self.padding), self.outputs)

    def operations(self, shape: Shape) -> float:
        return 2.0 * math.prod(self.out(shape)) * self.size**2 * self.inputs


@dataclass(frozen=True)
class BatchNorm(Layer):
    """Batch norm with the statistics of the batch. It also keeps running means of them."""

    channels: int

    def weights(self) -> dict[str, Weight]:
        return {"scale": ((self.channels,), 1.0, 0.1), "shift": ((self.channels,), 0.0, 0.1)}


@dataclass(frozen=True)
class Activation(Layer):
    kind: str
    """relu or sigmoid."""


@dataclass(frozen=True)
class MaxPool(Layer):
    """Max pooling. It follows a ReLU, so padding with zeros changes no maximum."""

    size: int
    stride: int
    padding: int = 0

    def out(self, shape: Shape) -> Shape:
        return (*_places(shape, self.size, self.stride, self.padding), shape[2])


@dataclass(frozen=True)
class Reshape(Layer):
    """Changes the shape. kind: mean over the image (mean), a single axis (flat), or the last frame (last)."""

    kind: str

    def out(self, shape: Shape) -> Shape:
        return {"mean": shape[-1:], "flat": (math.prod(shape),), "last": shape[1:]}[self.kind]


@dataclass(frozen=True)
class Embedding(Layer):
    words: int
    width: int

    def weights(self) -> dict[str, Weight]:
        return {"table": ((self.words, self.width), 0.0, 1.0)}

    def out(self, shape: Shape) -> Shape:
        return (*shape, self.width)


@dataclass(frozen=True)
class LSTM(Layer):
    """Maps (T, inputs) to (T, hidden · directions). The second direction reads each sequence backwards."""

    inputs: int
    hidden: int
    layers: int
    directions: int = 1

    @property
    def input_sizes(self) -> list[int]:
        """Number of inputs of each layer."""
        return [self.inputs] + [self.hidden * self.directions] * (self.layers - 1)

    def places(self) -> list[tuple[int, int, str]]:
        """List each layer and direction, with the suffix in the names of its weights (kernel, recurrent and bias)."""
        return [(n, side, f"{n}{'r' * side}") for n in range(self.layers) for side in range(self.directions)]

    def weights(self) -> dict[str, Weight]:
        weights: dict[str, Weight] = {}
        gates, deviation = 4 * self.hidden, 1 / math.sqrt(self.hidden)
        for n, _, end in self.places():
            weights[f"kernel{end}"] = ((self.input_sizes[n], gates), 0.0, deviation)
            weights[f"recurrent{end}"] = ((self.hidden, gates), 0.0, deviation)
            weights[f"bias{end}"] = ((gates,), 0.0, 0.1)
        return weights

    def out(self, shape: Shape) -> Shape:
        return (shape[0], self.hidden * self.directions)

    def operations(self, shape: Shape) -> float:
        products = sum(self.input_sizes) + self.layers * self.hidden
        return 2.0 * shape[0] * 4 * self.hidden * self.directions * products


@dataclass(frozen=True)
class Residual(Layer):
    """Computes branch(x) + shortcut(x). An empty shortcut means x itself."""

    branch: tuple[Layer, ...]
    shortcut: tuple[Layer, ...] = ()

    def out(self, shape: Shape) -> Shape:
        for layer in self.branch:
            shape = layer.out(shape)
        return shape

    def operations(self, shape: Shape) -> float:
        return _sum_operations(self.branch, shape) + _sum_operations(self.shortcut, shape)


def _sum_operations(layers: tuple[Layer, ...], shape: Shape) -> float:
    total = 0.0
    for layer in layers:
        total += layer.operations(shape)
        shape = layer.out(shape)
    return total


def _places(shape: Shape, size: int, stride: int, padding: int) -> Shape:
    return tuple((length + 2 * padding - size) // stride + 1 for length in shape[:2])


@dataclass(frozen=True)
class Network:
    """A network and its training.

    - kind: FCN, CNN or RNN
    - shape: shape of a sample: (values,), (height, width, channels), (words,) or (frames, features)
    - classes: number of outputs
    - batch: size of the mini-batch in the paper
    - published: number of parameters in the paper, in millions
    - loss: ce (cross-entropy) at each output, or ctc
    - shortest, labels: number of frames of the shortest utterance, and of labels per utterance
    - optimizer: sgd or adam
    - bound: initial weights are uniform within ±bound; None uses the initialisation of each layer
    - copied: whether each step copies the batch to the device
    """

    name: str
    kind: str
    shape: Shape
    classes: int
    layers: tuple[Layer, ...]
    batch: int
    published: float = 0.0
    loss: str = "ce"
    shortest: int = 0
    labels: int = 1
    optimizer: str = "sgd"
    bound: float | None = None
    copied: bool = False

    @property
    def words(self) -> int | None:
        """Size of the vocabulary; None if the input does not consist of words."""
        first = self.layers[0]
        return first.words if isinstance(first, Embedding) else None

    @property
    def variable(self) -> bool:
        """Whether utterances may differ in length."""
        return self.loss == "ctc" and self.shortest < self.shape[0]

    @property
    def parameters(self) -> int:
        return sum(math.prod(shape) for _, shape, _, _ in self.weights())

    @property
    def forward_operations(self) -> float:
        return _sum_operations(self.layers, self.shape)

    @property
    def training_operations(self) -> float:
        """Number of operations in a forward and backward pass for a sample.

        For each product in the forward pass, the backward pass needs two, for the gradients of weights and input. The
        first layer needs no gradient of its input.
        """
        return 3 * self.forward_operations - self.layers[0].operations(self.shape)

    def weights(self) -> Iterator[tuple[str, Shape, float, float]]:
        """Yield path, shape, initial mean and initial standard deviation of each trained weight."""
        for path, layer in walk(self.layers):
            for name, weight in layer.weights().items():
                yield (f"{path}.{name}", *weight)


def walk(layers: tuple[Layer, ...], path: str = "") -> Iterator[tuple[str, Layer]]:
    """Yield all layers with their paths, including the layers in residual connections."""
    for n, layer in enumerate(layers):
        if isinstance(layer, Residual):
            yield from walk(layer.branch, f"{path}{n}.branch.")
            yield from walk(layer.shortcut, f"{path}{n}.shortcut.")
        else:
            yield f"{path}{n}", layer


def draw_weights(network: Network, seed: int) -> dict[str, np.ndarray]:
    """Draw the initial weights by path. They are the same for every framework."""
    generator = np.random.default_rng(seed)
    if network.bound is not None:
        low, high = -network.bound, network.bound
        return {path: generator.uniform(low, high, shape).astype(np.float32) for path, shape, *_ in network.weights()}
    return {
        path: mean + deviation * generator.standard_normal(shape, dtype=np.float32)
        for path, shape, mean, deviation in network.weights()
    }


class Samples(NamedTuple):
    """A batch of samples.

    - inputs: (B, *shape), 0 past each length
    - lengths: (B,), longest first
    - targets: classes (B,), words (B, T), or for CTC labels (B, L) from 1 on, because the blank is 0
    """

    inputs: np.ndarray
    lengths: np.ndarray
    targets: np.ndarray


def draw_samples(network: Network, batch: int, seed: int) -> Samples:
    """Draw targets, and inputs from N(0, 1) or words. One utterance has the full length (Braun2018 §3.3)."""
    generator = np.random.default_rng((seed, batch))
    shape, lengths = (batch, *network.shape), np.full(batch, network.shape[0], dtype=np.int32)
    if network.words is not None:
        words = generator.integers(network.words, size=shape, dtype=np.int32)
        return Samples(words, lengths, generator.integers(network.classes, size=shape, dtype=np.int32))
    inputs: np.ndarray = generator.standard_normal(shape, dtype=np.float32)
    if network.loss == "ce":
        return Samples(inputs, lengths, generator.integers(network.classes, size=batch, dtype=np.int32))
    drawn = generator.integers(network.shortest, network.shape[0] + 1, batch, dtype=np.int32)
    lengths[1:] = np.sort(drawn)[::-1][1:]
    inputs *= (np.arange(network.shape[0]) < lengths[:, None])[..., None]
    return Samples(inputs, lengths, generator.integers(1, network.classes, (batch, network.labels), dtype=np.int32))

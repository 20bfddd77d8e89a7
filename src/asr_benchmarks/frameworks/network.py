"""Networks described as lists of layers, with initial weights and samples that are the same in every framework.

Arrays have TensorFlow's axis order: images (B, height, width, channels), matrices (inputs, outputs), and filters
(size, size, inputs, outputs). LSTM gates are in the order input, forget, cell, output.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

Shape: TypeAlias = tuple[int, ...]
Weight: TypeAlias = tuple[Shape, float, float]
"""Shape of a weight, and the mean and standard deviation of its initial values."""

LEARNING_RATE = 0.01  # for plain gradient descent, in all frameworks
EPSILON, MOMENTUM = 1e-5, 0.1  # for batch norm, in all frameworks; PyTorch's defaults


class Layer:
    """Base class of layers, which map a sample of shape `shape` to a sample of shape `out(shape)`."""

    def weights(self) -> dict[str, Weight]:
        return {}

    def out(self, shape: Shape) -> Shape:
        return shape

    def operations(self, shape: Shape) -> float:
        """Count the multiplications and additions in the matrix products of one sample's forward pass."""
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
    """A two-dimensional convolution of an image that is padded with `padding` zeros on each side."""

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
    """Batch norm that normalises with batch statistics, and also updates running statistics."""

    channels: int

    def weights(self) -> dict[str, Weight]:
        return {"scale": ((self.channels,), 1.0, 0.1), "shift": ((self.channels,), 0.0, 0.1)}


@dataclass(frozen=True)
class Activation(Layer):
    kind: str
    """relu or sigmoid."""


@dataclass(frozen=True)
class MaxPool(Layer):
    """Max pooling after a ReLU. Inputs are never negative, so padding with zeros changes no maximum."""

    size: int
    stride: int
    padding: int = 0

    def out(self, shape: Shape) -> Shape:
        return (*_places(shape, self.size, self.stride, self.padding), shape[2])


@dataclass(frozen=True)
class Reshape(Layer):
    """Reduces the axes. kind: mean averages over the image, flat joins all axes, and last selects the last frame."""

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
        """The input size of each layer."""
        return [self.inputs] + [self.hidden * self.directions] * (self.layers - 1)

    def places(self) -> list[tuple[int, int, str]]:
        """Return (layer, direction, suffix of the weight names) for every direction of every layer."""
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
    """Computes branch(x) + shortcut(x). An empty shortcut is the identity."""

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
    """A network, and how it is trained.

    - kind: FCN, CNN or RNN
    - shape: sample shape, which is (values,), (height, width, channels), (words,) or (frames, features)
    - classes: number of outputs
    - batch: mini-batch size in the paper
    - published: number of parameters in the paper, in millions
    - loss: ce (cross-entropy of each output) or ctc
    - shortest, labels: frames of the shortest utterance, and labels per utterance
    - optimizer: sgd or adam
    - bound: initial weights are sampled uniformly from ±bound; None: from each layer's normal distribution
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
        """Vocabulary size, or None if the inputs are not words."""
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
        """Number of operations in the forward and backward pass of one sample.

        For each product in the forward pass, the backward pass has two: one for the weight gradient, and one for the
        input gradient, which the first layer does not need.
        """
        return 3 * self.forward_operations - self.layers[0].operations(self.shape)

    def weights(self) -> Iterator[tuple[str, Shape, float, float]]:
        """Yield (path, shape, mean, standard deviation) for the initial values of each trained weight."""
        for path, layer in walk(self.layers):
            for name, weight in layer.weights().items():
                yield (f"{path}.{name}", *weight)


def walk(layers: tuple[Layer, ...], path: str = "") -> Iterator[tuple[str, Layer]]:
    """Yield (path, layer) for all layers, including the layers inside residual blocks."""
    for n, layer in enumerate(layers):
        if isinstance(layer, Residual):
            yield from walk(layer.branch, f"{path}{n}.branch.")
            yield from walk(layer.shortcut, f"{path}{n}.shortcut.")
        else:
            yield f"{path}{n}", layer


def draw_weights(network: Network, seed: int) -> dict[str, np.ndarray]:
    """Sample the initial weights, which are the same in every framework. Return arrays by path."""
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

    - inputs: (B, *shape), 0 in the padding
    - lengths: number of frames, (B,), longest first
    - targets: classes (B,), words (B, T), or CTC labels (B, L), which start at 1 because the blank is 0
    """

    inputs: np.ndarray
    lengths: np.ndarray
    targets: np.ndarray


def draw_samples(network: Network, batch: int, seed: int) -> Samples:
    """Sample inputs (N(0, 1) or words) and targets. The first utterance has the full length (Braun2018 §3.3)."""
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

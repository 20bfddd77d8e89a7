"""Networks as lists of layers that every framework builds in its own way: shapes of weights, operations, values.

Arrays lie as TensorFlow has them: images (B, height, width, channels), products (inputs, outputs), filters (size, size,
inputs, outputs), gates of an LSTM in the order input, forget, cell, output.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

Shape: TypeAlias = tuple[int, ...]


class Layer:
    """Maps an input of one sample's `shape` to that of `out(shape)`."""

    def weights(self) -> dict[str, tuple[Shape, float, float]]:
        """Shape, mean and standard deviation of what is trained, by name."""
        return {}

    def out(self, shape: Shape) -> Shape:
        return shape

    def operations(self, shape: Shape) -> float:
        """Multiplications and additions of the products for one sample, forwards."""
        return 0.0


@dataclass(frozen=True)
class Dense(Layer):
    """Over the last axis."""

    inputs: int
    outputs: int

    def weights(self) -> dict[str, tuple[Shape, float, float]]:
        kernel = (self.inputs, self.outputs)
        return {"kernel": (kernel, 0.0, math.sqrt(2 / self.inputs)), "bias": ((self.outputs,), 0.0, 0.01)}

    def out(self, shape: Shape) -> Shape:
        return (*shape[:-1], self.outputs)

    def operations(self, shape: Shape) -> float:
        return 2.0 * math.prod(shape) * self.outputs


@dataclass(frozen=True)
class Convolution(Layer):
    """Two-dimensional, padded with `padding` zeros on each side."""

    inputs: int
    outputs: int
    size: int
    stride: int = 1
    padding: int = 0
    bias: bool = True

    def weights(self) -> dict[str, tuple[Shape, float, float]]:
        fan_in = self.size**2 * self.inputs
        kernel = ((self.size, self.size, self.inputs, self.outputs), 0.0, math.sqrt(2 / fan_in))
        return {"kernel": kernel, **({"bias": ((self.outputs,), 0.0, 0.01)} if self.bias else {})}

    def out(self, shape: Shape) -> Shape:
        return (*_places(shape, self.size, self.stride, self.padding), self.outputs)

    def operations(self, shape: Shape) -> float:
        return 2.0 * math.prod(self.out(shape)) * self.size**2 * self.inputs


@dataclass(frozen=True)
class BatchNorm(Layer):
    """With the batch's own statistics, whose running means are kept."""

    channels: int

    def weights(self) -> dict[str, tuple[Shape, float, float]]:
        return {"scale": ((self.channels,), 1.0, 0.1), "shift": ((self.channels,), 0.0, 0.1)}


@dataclass(frozen=True)
class Activation(Layer):
    kind: str
    """relu or sigmoid."""


@dataclass(frozen=True)
class MaxPool(Layer):
    """After a ReLU: there padding with zeros is padding with nothing."""

    size: int
    stride: int
    padding: int = 0

    def out(self, shape: Shape) -> Shape:
        return (*_places(shape, self.size, self.stride, self.padding), shape[2])


@dataclass(frozen=True)
class MeanPool(Layer):
    """Over all of the image."""

    def out(self, shape: Shape) -> Shape:
        return (shape[2],)


@dataclass(frozen=True)
class Flatten(Layer):
    def out(self, shape: Shape) -> Shape:
        return (math.prod(shape),)


@dataclass(frozen=True)
class Embedding(Layer):
    words: int
    width: int

    def weights(self) -> dict[str, tuple[Shape, float, float]]:
        return {"table": ((self.words, self.width), 0.0, 1.0)}

    def out(self, shape: Shape) -> Shape:
        return (*shape, self.width)


@dataclass(frozen=True)
class LSTM(Layer):
    """Several layers, each (T, inputs) to (T, hidden), with one bias a gate."""

    inputs: int
    hidden: int
    layers: int

    def weights(self) -> dict[str, tuple[Shape, float, float]]:
        found: dict[str, tuple[Shape, float, float]] = {}
        deviation = 1 / math.sqrt(self.hidden)
        for n in range(self.layers):
            inputs = self.hidden if n else self.inputs
            found[f"kernel{n}"] = ((inputs, 4 * self.hidden), 0.0, deviation)
            found[f"recurrent{n}"] = ((self.hidden, 4 * self.hidden), 0.0, deviation)
            found[f"bias{n}"] = ((4 * self.hidden,), 0.0, 0.1)
        return found

    def out(self, shape: Shape) -> Shape:
        return (shape[0], self.hidden)

    def operations(self, shape: Shape) -> float:
        inputs = self.inputs + (self.layers - 1) * self.hidden
        return 2.0 * shape[0] * 4 * self.hidden * (inputs + self.layers * self.hidden)


@dataclass(frozen=True)
class Residual(Layer):
    """branch(x) + shortcut(x); an empty shortcut is x itself."""

    branch: tuple[Layer, ...]
    shortcut: tuple[Layer, ...] = ()

    def out(self, shape: Shape) -> Shape:
        for layer in self.branch:
            shape = layer.out(shape)
        return shape

    def operations(self, shape: Shape) -> float:
        return _operations(self.branch, shape) + _operations(self.shortcut, shape)


@dataclass(frozen=True)
class Network:
    """A network of the paper: what it maps to what, and what its Table 2 says of it."""

    name: str
    kind: str
    """FCN, CNN or RNN."""
    shape: Shape
    """Of one sample: values, (height, width, channels), or a number of words."""
    classes: int
    layers: tuple[Layer, ...]
    batch: int
    """The mini-batch of the paper's Table 4."""
    published: float
    """Millions of parameters by its Table 2."""

    @property
    def words(self) -> int | None:
        """How many there are, where the input is words."""
        first = self.layers[0]
        return first.words if isinstance(first, Embedding) else None

    @property
    def parameters(self) -> int:
        return sum(math.prod(shape) for _, shape, _, _ in self.weights())

    @property
    def forward_operations(self) -> float:
        return _operations(self.layers, self.shape)

    @property
    def training_operations(self) -> float:
        """Of one sample, forwards and backwards: the gradient of a product costs one more for the weights and one for
        its input, which the first layer's does not need. Norms, activations, the loss and the update are left out.
        """
        return 3 * self.forward_operations - self.layers[0].operations(self.shape)

    def weights(self) -> Iterator[tuple[str, Shape, float, float]]:
        """Path, shape, mean and standard deviation of all that is trained, in order."""
        for path, layer in walk(self.layers):
            for name, told in layer.weights().items():
                yield (f"{path}.{name}", *told)


def walk(layers: tuple[Layer, ...], path: str = "") -> Iterator[tuple[str, Layer]]:
    """The layers that hold weights of their own, by path."""
    for n, layer in enumerate(layers):
        if isinstance(layer, Residual):
            yield from walk(layer.branch, f"{path}{n}.branch.")
            yield from walk(layer.shortcut, f"{path}{n}.shortcut.")
        else:
            yield f"{path}{n}", layer


def values(network: Network, seed: int) -> dict[str, Any]:
    """Arrays of weights by path: the same ones in each framework."""
    import numpy as np

    generator = np.random.default_rng(seed)
    return {
        path: mean + deviation * generator.standard_normal(shape, dtype=np.float32)
        for path, shape, mean, deviation in network.weights()
    }


def samples(network: Network, batch: int, seed: int) -> tuple[Any, Any]:
    """Inputs (B, *shape), random values or words, and classes (B,), for words (B, T)."""
    import numpy as np

    generator = np.random.default_rng((seed, batch))
    shape = (batch, *network.shape)
    if network.words is not None:
        drawn = generator.integers(network.words, size=shape, dtype=np.int32)
        return drawn, generator.integers(network.classes, size=shape, dtype=np.int32)
    inputs = generator.standard_normal(shape, dtype=np.float32)
    return inputs, generator.integers(network.classes, size=batch, dtype=np.int32)


def _operations(layers: tuple[Layer, ...], shape: Shape) -> float:
    total = 0.0
    for layer in layers:
        total += layer.operations(shape)
        shape = layer.out(shape)
    return total


def _places(shape: Shape, size: int, stride: int, padding: int) -> Shape:
    return tuple((length + 2 * padding - size) // stride + 1 for length in shape[:2])

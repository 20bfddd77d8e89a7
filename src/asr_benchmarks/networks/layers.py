"""The kinds of layers, which every framework builds in its own way: shapes of weights and outputs, operations.

The axes of arrays are in TensorFlow's order: images (B, height, width, channels), products (inputs, outputs), filters
(size, size, inputs, outputs), gates of an LSTM in the order input, forget, cell, output.
"""

import math
from dataclasses import dataclass
from typing import TypeAlias

Shape: TypeAlias = tuple[int, ...]

Weight: TypeAlias = tuple[Shape, float, float]
"""Shape, mean and standard deviation of the values with which a weight begins."""


class Layer:
    """Maps a sample of shape `shape` to one of shape `out(shape)`."""

    def weights(self) -> dict[str, Weight]:
        """The trained weights, by name."""
        return {}

    def out(self, shape: Shape) -> Shape:
        return shape

    def operations(self, shape: Shape) -> float:
        """Multiplications and additions of the matrix products in the forward pass of one sample."""
        return 0.0


@dataclass(frozen=True)
class Dense(Layer):
    """A product with a matrix over the last axis, and a bias."""

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
    """Batch norm with the statistics of the batch, whose running means are kept."""

    channels: int

    def weights(self) -> dict[str, Weight]:
        return {"scale": ((self.channels,), 1.0, 0.1), "shift": ((self.channels,), 0.0, 0.1)}


@dataclass(frozen=True)
class Activation(Layer):
    kind: str
    """relu or sigmoid."""


@dataclass(frozen=True)
class MaxPool(Layer):
    """A pool after a ReLU, where padding with zeros changes no maximum."""

    size: int
    stride: int
    padding: int = 0

    def out(self, shape: Shape) -> Shape:
        return (*_places(shape, self.size, self.stride, self.padding), shape[2])


@dataclass(frozen=True)
class MeanPool(Layer):
    """The mean over the whole image."""

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

    def weights(self) -> dict[str, Weight]:
        return {"table": ((self.words, self.width), 0.0, 1.0)}

    def out(self, shape: Shape) -> Shape:
        return (*shape, self.width)


@dataclass(frozen=True)
class LSTM(Layer):
    """Several layers, each from (T, inputs) to (T, hidden), with one bias per gate."""

    inputs: int
    hidden: int
    layers: int

    def weights(self) -> dict[str, Weight]:
        weights: dict[str, Weight] = {}
        deviation = 1 / math.sqrt(self.hidden)
        for n in range(self.layers):
            inputs = self.hidden if n else self.inputs
            weights[f"kernel{n}"] = ((inputs, 4 * self.hidden), 0.0, deviation)
            weights[f"recurrent{n}"] = ((self.hidden, 4 * self.hidden), 0.0, deviation)
            weights[f"bias{n}"] = ((4 * self.hidden,), 0.0, 0.1)
        return weights

    def out(self, shape: Shape) -> Shape:
        return (shape[0], self.hidden)

    def operations(self, shape: Shape) -> float:
        inputs = self.inputs + (self.layers - 1) * self.hidden
        return 2.0 * shape[0] * 4 * self.hidden * (inputs + self.layers * self.hidden)


@dataclass(frozen=True)
class Residual(Layer):
    """The sum branch(x) + shortcut(x); an empty shortcut is x itself."""

    branch: tuple[Layer, ...]
    shortcut: tuple[Layer, ...] = ()

    def out(self, shape: Shape) -> Shape:
        for layer in self.branch:
            shape = layer.out(shape)
        return shape

    def operations(self, shape: Shape) -> float:
        return operations_of(self.branch, shape) + operations_of(self.shortcut, shape)


def operations_of(layers: tuple[Layer, ...], shape: Shape) -> float:
    """Multiplications and additions in the forward pass of one sample of this shape through all layers."""
    total = 0.0
    for layer in layers:
        total += layer.operations(shape)
        shape = layer.out(shape)
    return total


def _places(shape: Shape, size: int, stride: int, padding: int) -> Shape:
    return tuple((length + 2 * padding - size) // stride + 1 for length in shape[:2])

"""Networks as lists of layers: their sizes, and the weights and samples that every framework gets."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from asr_benchmarks.networks import layers as kinds


@dataclass(frozen=True)
class Network:
    """A network of the paper: its inputs, layers and outputs, and its size in the paper's Table 2."""

    name: str
    kind: str
    """FCN, CNN or RNN."""
    shape: kinds.Shape
    """Shape of one sample: (values,), (height, width, channels), or (words,)."""
    classes: int
    layers: tuple[kinds.Layer, ...]
    batch: int
    """The mini-batch of the paper's Table 4."""
    published: float
    """Millions of parameters by its Table 2."""

    @property
    def words(self) -> int | None:
        """Size of the vocabulary if the input consists of words, else None."""
        first = self.layers[0]
        return first.words if isinstance(first, kinds.Embedding) else None

    @property
    def parameters(self) -> int:
        return sum(math.prod(shape) for _, shape, _, _ in self.weights())

    @property
    def forward_operations(self) -> float:
        return kinds.operations_of(self.layers, self.shape)

    @property
    def training_operations(self) -> float:
        """Operations of the forward and the backward pass of one sample. Each product costs one more for the gradient
        of the weights and one for that of its input, which the first layer does not need. Norms, activations, the loss
        and the update are left out.
        """
        return 3 * self.forward_operations - self.layers[0].operations(self.shape)

    def weights(self) -> Iterator[tuple[str, kinds.Shape, float, float]]:
        """Path, shape, mean and standard deviation of each trained weight, in order."""
        for path, layer in walk(self.layers):
            for name, weight in layer.weights().items():
                yield (f"{path}.{name}", *weight)


def walk(layers: tuple[kinds.Layer, ...], path: str = "") -> Iterator[tuple[str, kinds.Layer]]:
    """The layers outside and within residual connections, with their paths."""
    for n, layer in enumerate(layers):
        if isinstance(layer, kinds.Residual):
            yield from walk(layer.branch, f"{path}{n}.branch.")
            yield from walk(layer.shortcut, f"{path}{n}.shortcut.")
        else:
            yield f"{path}{n}", layer


def values(network: Network, seed: int) -> dict[str, np.ndarray]:
    """The weights by path, the same in every framework."""
    generator = np.random.default_rng(seed)
    return {
        path: mean + deviation * generator.standard_normal(shape, dtype=np.float32)
        for path, shape, mean, deviation in network.weights()
    }


def samples(network: Network, batch: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (B, *shape), random values or words, and classes (B,), for words (B, T)."""
    generator = np.random.default_rng((seed, batch))
    shape = (batch, *network.shape)
    if network.words is not None:
        drawn = generator.integers(network.words, size=shape, dtype=np.int32)
        return drawn, generator.integers(network.classes, size=shape, dtype=np.int32)
    inputs = generator.standard_normal(shape, dtype=np.float32)
    return inputs, generator.integers(network.classes, size=batch, dtype=np.int32)

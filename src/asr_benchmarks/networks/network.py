"""Networks as lists of layers: their sizes, and the weights and samples that each framework gets."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from asr_benchmarks.networks import layers as kinds


@dataclass(frozen=True)
class Network:
    """A network of the paper: what it maps to what, and what its Table 2 says of it."""

    name: str
    kind: str
    """FCN, CNN or RNN."""
    shape: kinds.Shape
    """Of one sample: values, (height, width, channels), or a number of words."""
    classes: int
    layers: tuple[kinds.Layer, ...]
    batch: int
    """The mini-batch of the paper's Table 4."""
    published: float
    """Millions of parameters by its Table 2."""

    @property
    def words(self) -> int | None:
        """How many there are, where the input is words."""
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
        """Of one sample, forwards and backwards: the gradient of a product costs one more for the weights and one for
        its input, which the first layer's does not need. Norms, activations, the loss and the update are left out.
        """
        return 3 * self.forward_operations - self.layers[0].operations(self.shape)

    def weights(self) -> Iterator[tuple[str, kinds.Shape, float, float]]:
        """Path, shape, mean and standard deviation of all that is trained, in order."""
        for path, layer in walk(self.layers):
            for name, told in layer.weights().items():
                yield (f"{path}.{name}", *told)


def walk(layers: tuple[kinds.Layer, ...], path: str = "") -> Iterator[tuple[str, kinds.Layer]]:
    """The layers that hold weights of their own, by path."""
    for n, layer in enumerate(layers):
        if isinstance(layer, kinds.Residual):
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

"""Networks as lists of layers: their sizes, and the weights and samples that every framework gets."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

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


LEARNING_RATE = 0.01
"""Learning rate of the plain gradient descent in all frameworks."""

EPSILON, MOMENTUM = 1e-5, 0.1
"""Constants of batch norm in all frameworks, as in PyTorch."""


class Trainer(Protocol):
    """A network with the weights of network.values, and one mini-batch on its device."""

    def parameters(self) -> int:
        """Number of trained values, as the framework counts them."""

    def outputs(self) -> np.ndarray:
        """Outputs (2, …) of the network for the first two samples, before the softmax, in training mode."""

    def losses(self, steps: int) -> list[float]:
        """Mean cross-entropy of the mini-batch before each of `steps` training steps."""

    def step(self) -> float:
        """Seconds of forward pass, backward pass and update, until the device is done."""

    def device_memory(self) -> int | None:
        """Peak memory of a GPU in bytes; None on a CPU."""


class Framework(Protocol):
    """A framework that trains the networks."""

    @property
    def packages(self) -> list[str]:
        """Packages that have to be installed."""

    def environment(self, device: str, threads: int | None) -> dict[str, str]:
        """Variables of its process. device: cpu or gpu; threads: those of the CPU, None for the framework's choice."""

    def trainer(
        self, network: Network, *, batch: int, device: str, threads: int | None, tf32: bool, seed: int
    ) -> Trainer:
        """A trainer of the network. Raises an error if the framework has no such device."""

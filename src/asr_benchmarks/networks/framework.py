"""What a framework has to do; each is one file beside this one and one in conf/benchmark/networks/framework/."""

from typing import Protocol

import numpy as np

from asr_benchmarks.networks.network import Network

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

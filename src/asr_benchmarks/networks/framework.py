"""What a framework has to give; each is one file beside this one and one in conf/benchmark/networks/framework/."""

from typing import Any, Protocol

from asr_benchmarks.networks.network import Network

LEARNING_RATE = 0.01
"""Of the plain gradient descent that all of them do."""


class Trainer(Protocol):
    """A network with the weights of network.values, and one mini-batch on its device."""

    def parameters(self) -> int:
        """Trained values, as the framework counts them."""

    def outputs(self) -> Any:
        """What the network gives for the first two samples, before the softmax, as in training: an array (2, …)."""

    def losses(self, steps: int) -> list[float]:
        """Mean cross-entropy of the mini-batch before each of so many steps."""

    def step(self) -> float:
        """Seconds of forward, backward and update, the device waited for."""

    def device_memory(self) -> int | None:
        """Bytes of a GPU that were held at most; None on the CPU."""


class Framework(Protocol):
    packages: list[str]
    """What has to be installed."""

    def environment(self, device: str, threads: int | None) -> dict[str, str]:
        """Variables of its process. device: cpu or gpu; threads: of the CPU, None for the framework's choice."""

    def trainer(
        self, network: Network, *, batch: int, device: str, threads: int | None, tf32: bool, seed: int
    ) -> Trainer:
        """Raises an error where the framework has no such device."""

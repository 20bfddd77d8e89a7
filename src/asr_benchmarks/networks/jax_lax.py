"""The networks in JAX: functions of arrays, compiled, without a library of layers."""

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from asr_benchmarks.networks.network import Network, samples, values

if TYPE_CHECKING:
    from jax import Array


def variables(device: str, threads: int | None) -> dict[str, str]:
    """Variables for a process that uses JAX. NPROC, which JAX takes for the number of cores, sets its threads."""
    platform = {"JAX_PLATFORMS": "cpu" if device == "cpu" else "cuda", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    return {**platform, **({"NPROC": str(threads)} if threads is not None else {})}


def set_precision(tf32: bool) -> None:
    """Set whether a GPU rounds the inputs of float32 products; by default JAX does."""
    import jax

    jax.config.update("jax_default_matmul_precision", "tensorfloat32" if tf32 else "highest")


def peak(device: str) -> int | None:
    """Peak memory of the GPU in bytes; None on a CPU."""
    import jax

    statistics = jax.devices()[0].memory_stats() if device == "gpu" else None
    return int(statistics["peak_bytes_in_use"]) if statistics else None


@dataclass(frozen=True)
class Jax:
    """The framework JAX."""

    packages: list[str]

    def environment(self, device: str, threads: int | None) -> dict[str, str]:
        return variables(device, threads)

    def trainer(
        self, network: Network, *, batch: int, device: str, threads: int | None, tf32: bool, seed: int
    ) -> "JaxTrainer":
        set_precision(tf32)
        return JaxTrainer(network, batch, device, seed)


class JaxTrainer:
    def __init__(self, network: Network, batch: int, device: str, seed: int) -> None:
        import jax

        from asr_benchmarks.networks.jax_functions import forward, running_means, train

        self.device = device
        self.weights = {path: jax.device_put(value) for path, value in values(network, seed).items()}
        self.means = running_means(network)
        self.inputs, self.classes = map(jax.device_put, samples(network, batch, seed))
        self.forward = jax.jit(partial(forward, network.layers))
        self.train = jax.jit(partial(train, network.layers), donate_argnums=(0, 1))

    def parameters(self) -> int:
        return sum(value.size for value in self.weights.values())

    def outputs(self) -> np.ndarray:
        return np.asarray(self.forward(self.weights, self.means, self.inputs[:2])[0])

    def losses(self, steps: int) -> list[float]:
        return [float(self._train()) for _ in range(steps)]

    def step(self) -> float:
        import jax

        started = time.perf_counter()
        jax.block_until_ready((self._train(), self.weights))
        return time.perf_counter() - started

    def device_memory(self) -> int | None:
        return peak(self.device)

    def _train(self) -> "Array":
        self.weights, self.means, loss = self.train(self.weights, self.means, self.inputs, self.classes)
        return loss

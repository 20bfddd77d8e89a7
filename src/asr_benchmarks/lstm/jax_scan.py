"""The networks in JAX: a scan over the frames, the whole training step compiled."""

import time
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from asr_benchmarks.lstm.configuration import Configuration, draw_batch, draw_weights

if TYPE_CHECKING:
    import jax

    from asr_benchmarks.lstm.jax_network import AdamState, Parameters


class JaxScan:
    """A Training. Raises ValueError for a GPU that JAX does not see."""

    def __init__(self, *, configuration: Configuration, seed: int, device: str) -> None:
        import jax

        from asr_benchmarks.lstm.jax_network import logits, update

        jax.config.update("jax_default_matmul_precision", "float32")
        self.device = jax_device(device)
        weights = draw_weights(configuration, seed)
        layers = [[tuple(value.T for value in direction) for direction in layer] for layer in weights.layers]
        own = {"layers": layers, "output": (weights.output.T, weights.bias)}
        self.weights: Parameters = jax.device_put(own, self.device)
        # twice, since what is donated must not be shared
        mean, square = (jax.tree.map(lambda value: 0 * value, self.weights) for _ in range(2))
        self.state: AdamState = (mean, square, jax.device_put(np.float32(0), self.device))
        batch = draw_batch(configuration, seed)
        self.batch = (batch.x, batch.lengths.astype(np.int32), batch.labels.astype(np.int32))
        self.logits = partial(logits, configuration.loss)
        self.update = jax.jit(partial(update, configuration.loss), donate_argnums=(0, 1) if device == "cuda" else ())

    def outputs(self) -> np.ndarray:
        import jax

        return np.asarray(jax.jit(self.logits)(self.weights, *self.batch[:2]))

    def step(self) -> tuple[float, float]:
        import jax

        started = time.perf_counter()
        batch = jax.device_put(self.batch, self.device)
        self.weights, self.state, loss = jax.block_until_ready(self.update(self.weights, self.state, *batch))
        return time.perf_counter() - started, float(loss)

    def device_memory(self) -> int | None:
        return jax_memory(self.device)

    def versions(self) -> dict[str, str]:
        import jax
        import jaxlib

        return {"jax": jax.__version__, "jaxlib": jaxlib.__version__}


def jax_device(kind: str) -> "jax.Device":
    """The device that JAX computes on. Raises ValueError if it is not of this kind, cpu or cuda."""
    import jax

    device = jax.devices()[0]
    if (device.platform == "gpu") != (kind == "cuda"):
        raise ValueError(f"this build of JAX computes on {device.platform}, not on {kind}")
    return device


def jax_memory(device: "jax.Device") -> int | None:
    """Peak memory of a GPU in bytes, as JAX reports it; None on a CPU."""
    statistics = device.memory_stats() if device.platform == "gpu" else None
    return int(statistics["peak_bytes_in_use"]) if statistics else None

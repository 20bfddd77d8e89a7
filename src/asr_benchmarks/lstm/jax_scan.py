"""The networks in JAX: a scan over the frames, the whole training step compiled."""

import time
from typing import Any

import numpy as np

from asr_benchmarks.lstm.configuration import Configuration, draw_batch, draw_weights

RATE, DECAY, SQUARE_DECAY, EPSILON = 1e-3, 0.9, 0.999, 1e-8
"""Of Adam, as Kingma & Ba 2015 and torch have them; JAX itself has no optimizer."""


class JaxScan:
    """Raises ValueError where a GPU is asked for that JAX does not see."""

    def __init__(self, *, configuration: Configuration, seed: int, device: str) -> None:
        import jax

        jax.config.update("jax_default_matmul_precision", "float32")
        self.device = jax_device(device)
        weights = draw_weights(configuration, seed)
        layers = [[tuple(value.T for value in each) for each in layer] for layer in weights.layers]
        self.weights = jax.device_put({"layers": layers, "output": (weights.output.T, weights.bias)}, self.device)
        # twice, since what is donated must not be shared
        mean, square = (jax.tree.map(lambda value: 0 * value, self.weights) for _ in range(2))
        self.state = (mean, square, jax.device_put(np.float32(0), self.device))
        batch = draw_batch(configuration, seed)
        self.batch = (batch.x, batch.lengths.astype(np.int32), batch.labels.astype(np.int32))
        self.logits, update = _functions(configuration.loss)
        self.update = jax.jit(update, donate_argnums=(0, 1) if device == "cuda" else ())

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


def jax_device(kind: str) -> Any:
    """The device that JAX is to compute on. Raises ValueError for a GPU that it does not see."""
    import jax

    found = jax.devices()[0]
    if (found.platform == "gpu") != (kind == "cuda"):
        raise ValueError(f"this build of JAX computes on {found.platform}, not on {kind}")
    return found


def jax_memory(device: Any) -> int | None:
    """Bytes of a GPU that JAX held at most."""
    told = device.memory_stats() if device.platform == "gpu" else None
    return told["peak_bytes_in_use"] if told else None


def _functions(kind: str) -> tuple[Any, Any]:
    """(weights, x, lengths) → logits, and (weights, Adam's state, x, lengths, labels) → both updated, loss."""
    import jax
    import jax.numpy as jnp

    from asr_benchmarks.lstm.jax_ctc import ctc

    def lstm(weights: Any, x: Any) -> Any:
        """(B, T, D) → (B, T, H)."""
        inputs, recurrent, bias = weights
        state = jnp.zeros((x.shape[0], recurrent.shape[0]), x.dtype)

        def frame(carry: Any, entering: Any) -> Any:
            hidden, memory = carry
            enter, forget, candidate, leave = jnp.split(entering + hidden @ recurrent, 4, axis=1)
            memory = jax.nn.sigmoid(forget) * memory + jax.nn.sigmoid(enter) * jnp.tanh(candidate)
            hidden = jax.nn.sigmoid(leave) * jnp.tanh(memory)
            return (hidden, memory), hidden

        _, outputs = jax.lax.scan(frame, (state, state), (x @ inputs + bias).swapaxes(0, 1))
        return outputs.swapaxes(0, 1)

    def logits(weights: Any, x: Any, lengths: Any) -> Any:
        position = jnp.arange(x.shape[1])[None]
        last = lengths[:, None] - 1
        flip = jnp.where(position <= last, last - position, position)[..., None]  # within each utterance's length
        for layer in weights["layers"]:
            outputs = [lstm(layer[0], x)]
            if len(layer) == 2:
                backwards = lstm(layer[1], jnp.take_along_axis(x, flip, axis=1))
                outputs.append(jnp.take_along_axis(backwards, flip, axis=1))
            x = jnp.concatenate(outputs, axis=-1)
        matrix, bias = weights["output"]
        return (x if kind == "ctc" else x[:, -1]) @ matrix + bias

    def loss(weights: Any, x: Any, lengths: Any, labels: Any) -> Any:
        log_probs = jax.nn.log_softmax(logits(weights, x, lengths))
        if kind == "ctc":
            return ctc(log_probs, lengths, labels).mean() / labels.shape[1]
        return -jnp.take_along_axis(log_probs, labels, axis=1).mean()

    def update(weights: Any, state: Any, x: Any, lengths: Any, labels: Any) -> Any:
        found, gradient = jax.value_and_grad(loss)(weights, x, lengths, labels)
        weights, state = adam(weights, state, gradient)
        return weights, state, found

    def adam(weights: Any, state: Any, gradient: Any) -> Any:
        mean, square, steps = state
        steps = steps + 1
        mean = jax.tree.map(lambda m, g: DECAY * m + (1 - DECAY) * g, mean, gradient)
        square = jax.tree.map(lambda s, g: SQUARE_DECAY * s + (1 - SQUARE_DECAY) * g * g, square, gradient)
        # the factors by which averages that began at 0 are too small
        first, second = 1 - DECAY**steps, 1 - SQUARE_DECAY**steps
        weights = jax.tree.map(
            lambda w, m, s: w - RATE * (m / first) / (jnp.sqrt(s / second) + EPSILON), weights, mean, square
        )
        return weights, (mean, square, steps)

    return logits, update

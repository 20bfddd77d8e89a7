"""The networks in JAX: a scan over the frames, the whole training step compiled."""

import time
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypedDict

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from asr_benchmarks.lstm.configuration import Configuration, draw_batch, draw_weights

if TYPE_CHECKING:
    import jax

    pass


NEVER = -1e30
"""The logarithm of 0: finite, so that gradients through it are 0 and not undefined."""


def ctc(log_probs: Array, lengths: Array, labels: Array) -> Array:
    """(log_probs (B, T, V) in nats, lengths (B,), labels (B, L), all valid) → nats (B,); blank is 0.

    Graves et al. 2006, equations 6 to 8, in logarithms and scanned over the frames.
    """
    count = labels.shape[1]
    symbols = jnp.zeros((len(labels), 2 * count + 1), labels.dtype).at[:, 1::2].set(labels)
    # from two symbols before: not onto a blank, and not from a label onto its equal
    repeated = jnp.concatenate([jnp.ones((len(labels), 1), bool), labels[:, 1:] == labels[:, :-1]], axis=1)
    over = jnp.full(symbols.shape, NEVER).at[:, 1::2].set(jnp.where(repeated, NEVER, 0.0))
    spoken = jnp.take_along_axis(log_probs, symbols[:, None], axis=2).swapaxes(0, 1)  # (T, B, 2 L + 1)

    def frame(log_alpha: Array, numbered: tuple[Array, Array]) -> tuple[Array, None]:
        number, emitted = numbered
        moved = jnp.logaddexp(jnp.logaddexp(log_alpha, _shifted(log_alpha, 1)), _shifted(log_alpha, 2) + over)
        return jnp.where((number < lengths)[:, None], moved + emitted, log_alpha), None

    first = jnp.full(symbols.shape, NEVER).at[:, :2].set(spoken[0, :, :2])
    log_alpha, _ = jax.lax.scan(frame, first, (jnp.arange(1, len(spoken)), spoken[1:]))
    return -jnp.logaddexp(log_alpha[:, -1], log_alpha[:, -2])


def _shifted(log_alpha: Array, by: int) -> Array:
    return jnp.pad(log_alpha[:, :-by], ((0, 0), (by, 0)), constant_values=NEVER)


RATE, DECAY, SQUARE_DECAY, EPSILON = 1e-3, 0.9, 0.999, 1e-8
"""Adam's constants as in Kingma & Ba 2015 and in torch; JAX itself has no optimizer."""

Direction: TypeAlias = tuple[Array, Array, Array]
"""Weights of one LSTM for inputs (D, 4H) and for the last state (H, 4H), bias (4H,); gates in the order i, f, g, o."""


class Parameters(TypedDict):
    """layers: the directions of each, forward first; output: matrix (H · directions, outputs) and bias (outputs,)."""

    layers: list[list[Direction]]
    output: tuple[Array, Array]


AdamState: TypeAlias = tuple[Parameters, Parameters, Array]
"""Moving averages of the gradients and of their squares, and the number of steps."""


def logits(kind: str, weights: Parameters, x: Array, lengths: Array) -> Array:
    """(x (B, T, D), lengths (B,)) → logits: (B, T, V) if the kind of loss is ctc, (B, V) of the last frame if ce."""
    position = jnp.arange(x.shape[1])[None]
    last = lengths[:, None] - 1
    flip = jnp.where(position <= last, last - position, position)[..., None]  # within each utterance's length
    for layer in weights["layers"]:
        outputs = [_lstm(layer[0], x)]
        if len(layer) == 2:
            backwards = _lstm(layer[1], jnp.take_along_axis(x, flip, axis=1))
            outputs.append(jnp.take_along_axis(backwards, flip, axis=1))
        x = jnp.concatenate(outputs, axis=-1)
    matrix, bias = weights["output"]
    return (x if kind == "ctc" else x[:, -1]) @ matrix + bias


def update(
    kind: str, weights: Parameters, state: AdamState, x: Array, lengths: Array, labels: Array
) -> tuple[Parameters, AdamState, Array]:
    """One training step: the weights and Adam's state after it, and the loss before it."""
    loss, gradient = jax.value_and_grad(partial(_loss, kind))(weights, x, lengths, labels)
    weights, state = _adam(weights, state, gradient)
    return weights, state, loss


def _lstm(weights: Direction, x: Array) -> Array:
    """(B, T, D) → (B, T, H)."""
    inputs, recurrent, bias = weights
    zeros = jnp.zeros((x.shape[0], recurrent.shape[0]), x.dtype)

    def frame(state: tuple[Array, Array], entering: Array) -> tuple[tuple[Array, Array], Array]:
        hidden, memory = state
        enter, forget, candidate, leave = jnp.split(entering + hidden @ recurrent, 4, axis=1)
        memory = jax.nn.sigmoid(forget) * memory + jax.nn.sigmoid(enter) * jnp.tanh(candidate)
        hidden = jax.nn.sigmoid(leave) * jnp.tanh(memory)
        return (hidden, memory), hidden

    _, outputs = jax.lax.scan(frame, (zeros, zeros), (x @ inputs + bias).swapaxes(0, 1))
    return outputs.swapaxes(0, 1)


def _loss(kind: str, weights: Parameters, x: Array, lengths: Array, labels: Array) -> Array:
    """Nats per label, the mean over utterances."""
    log_probs = jax.nn.log_softmax(logits(kind, weights, x, lengths))
    if kind == "ctc":
        return ctc(log_probs, lengths, labels).mean() / labels.shape[1]
    return -jnp.take_along_axis(log_probs, labels, axis=1).mean()


def _adam(weights: Parameters, state: AdamState, gradient: Parameters) -> tuple[Parameters, AdamState]:
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


class JaxScan:
    """A Training. Raises ValueError for a GPU that JAX does not see."""

    def __init__(self, *, configuration: Configuration, seed: int, device: str) -> None:
        import jax

        pass

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

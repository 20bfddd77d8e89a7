"""The networks in plain JAX, without a layer library. The whole training step is compiled."""

import time
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
from jax import Array, lax

from asr_benchmarks.frameworks import network as kinds
from asr_benchmarks.frameworks.network import EPSILON, LEARNING_RATE, MOMENTUM, Network, draw_samples, draw_weights
from asr_benchmarks.worker import Step

Weights: TypeAlias = dict[str, Array]
"""Weights by path, as in draw_weights."""

Means: TypeAlias = dict[str, tuple[Array, Array]]
"""Running mean and variance of each batch norm, by path."""

AdamState: TypeAlias = tuple[Weights, Weights, Array]
"""Moving averages of the gradients and of the squared gradients, and the number of steps."""

RATE, DECAY, SQUARE_DECAY, ADAM_EPSILON = 1e-3, 0.9, 0.999, 1e-8
"""Adam's constants, which are the defaults in Kingma & Ba 2015 and in torch. JAX itself has no optimizers."""

NEVER = -1e30
"""Finite value that represents log(0), because gradients through −∞ would be undefined."""


class JaxTrainer:
    """A Trainer in JAX. Raises ValueError if JAX cannot use the device."""

    def __init__(
        self, network: Network, *, batch: int, seed: int, device: str, threads: int | None, tf32: bool
    ) -> None:
        self.network, self.device = network, prepare_jax(device, tf32)
        self.weights = {path: jax.device_put(value, self.device) for path, value in draw_weights(network, seed).items()}
        norms = [(path, layer) for path, layer in kinds.walk(network.layers) if isinstance(layer, kinds.BatchNorm)]
        self.means: Means = {path: (jnp.zeros(norm.channels), jnp.ones(norm.channels)) for path, norm in norms}
        # two separate copies, because donated arrays must not share memory
        mean, square = (jax.tree.map(lambda value: 0 * value, self.weights) for _ in range(2))
        self.state: AdamState | None = None
        if network.optimizer == "adam":
            self.state = (mean, square, jax.device_put(np.float32(0), self.device))
        self.batch: Any = tuple(draw_samples(network, batch, seed))
        if not network.copied:
            self.batch = jax.device_put(self.batch, self.device)
        self.train = jax.jit(partial(train, network), donate_argnums=(0, 1, 2))

    def parameters(self) -> int:
        return sum(value.size for value in self.weights.values())

    def outputs(self, count: int | None = None) -> np.ndarray:
        inputs, lengths, _ = self.batch
        run = jax.jit(partial(forward, self.network.layers))
        return np.asarray(run(self.weights, self.means, inputs[:count], lengths[:count])[0])

    def step(self) -> Step:
        started = time.perf_counter()
        batch = jax.device_put(self.batch, self.device)
        self.weights, self.means, self.state, loss = jax.block_until_ready(
            self.train(self.weights, self.means, self.state, *batch)
        )
        return Step(time.perf_counter() - started, float(loss))

    def device_memory(self) -> int | None:
        return read_jax_memory(self.device)

    def versions(self) -> dict[str, str]:
        return {"jax": jax.__version__, "jaxlib": jaxlib.__version__}


def prepare_jax(kind: str, tf32: bool) -> jax.Device:
    """Configure JAX and return its default device. Raise ValueError if that device is not of `kind` (cpu or gpu)."""
    jax.config.update("jax_default_matmul_precision", "tensorfloat32" if tf32 else "highest")
    device = jax.devices()[0]
    if device.platform != kind:
        raise ValueError(f"this build of JAX computes on {device.platform}, not on {kind}")
    return device


def read_jax_memory(device: jax.Device) -> int | None:
    """Return a GPU's peak memory in bytes, or None for a CPU."""
    statistics = device.memory_stats() if device.platform == "gpu" else None
    return int(statistics["peak_bytes_in_use"]) if statistics else None


def train(
    network: Network,
    weights: Weights,
    means: Means,
    state: AdamState | None,
    inputs: Array,
    lengths: Array,
    targets: Array,
) -> tuple[Weights, Means, AdamState | None, Array]:
    """Train one step. Return the new weights, running means and optimizer state, and the loss before the update."""

    def loss(weights: Weights) -> tuple[Array, Means]:
        outputs, after = forward(network.layers, weights, means, inputs, lengths)
        log_probs = jax.nn.log_softmax(outputs)
        if network.loss == "ctc":
            return ctc(log_probs, lengths, targets).mean() / targets.shape[1], after
        return -jnp.take_along_axis(log_probs, targets[..., None], axis=-1).mean(), after

    (value, after), gradients = jax.value_and_grad(loss, has_aux=True)(weights)
    if state is None:
        stepped = jax.tree.map(lambda weight, gradient: weight - LEARNING_RATE * gradient, weights, gradients)
    else:
        stepped, state = _step_adam(weights, state, gradients)
    return stepped, after, state, value


def _step_adam(weights: Weights, state: AdamState, gradients: Weights) -> tuple[Weights, AdamState]:
    mean, square, steps = state
    steps = steps + 1
    mean = jax.tree.map(lambda m, g: DECAY * m + (1 - DECAY) * g, mean, gradients)
    square = jax.tree.map(lambda s, g: SQUARE_DECAY * s + (1 - SQUARE_DECAY) * g * g, square, gradients)
    # correct the bias of averages that start at 0
    first, second = 1 - DECAY**steps, 1 - SQUARE_DECAY**steps
    stepped = jax.tree.map(
        lambda w, m, s: w - RATE * (m / first) / (jnp.sqrt(s / second) + ADAM_EPSILON), weights, mean, square
    )
    return stepped, (mean, square, steps)


def ctc(log_probs: Array, lengths: Array, labels: Array) -> Array:
    """Compute the CTC loss (Graves et al. 2006, eq. 6 to 8).

    log_probs (B, T, V), lengths (B,), labels (B, L) → nats (B,)."""
    count = labels.shape[1]
    symbols = jnp.zeros((len(labels), 2 * count + 1), labels.dtype).at[:, 1::2].set(labels)
    # a path may skip a blank between different labels, but no other symbol
    repeated = jnp.concatenate([jnp.ones((len(labels), 1), bool), labels[:, 1:] == labels[:, :-1]], axis=1)
    over = jnp.full(symbols.shape, NEVER).at[:, 1::2].set(jnp.where(repeated, NEVER, 0.0))
    spoken = jnp.take_along_axis(log_probs, symbols[:, None], axis=2).swapaxes(0, 1)  # (T, B, 2 L + 1)

    def shift(log_alpha: Array, by: int) -> Array:
        return jnp.pad(log_alpha[:, :-by], ((0, 0), (by, 0)), constant_values=NEVER)

    def advance(log_alpha: Array, numbered: tuple[Array, Array]) -> tuple[Array, None]:
        number, emitted = numbered
        moved = jnp.logaddexp(jnp.logaddexp(log_alpha, shift(log_alpha, 1)), shift(log_alpha, 2) + over)
        return jnp.where((number < lengths)[:, None], moved + emitted, log_alpha), None

    first = jnp.full(symbols.shape, NEVER).at[:, :2].set(spoken[0, :, :2])
    log_alpha, _ = lax.scan(advance, first, (jnp.arange(1, len(spoken)), spoken[1:]))
    return -jnp.logaddexp(log_alpha[:, -1], log_alpha[:, -2])


def forward(
    layers: tuple[kinds.Layer, ...], weights: Weights, means: Means, x: Array, lengths: Array, path: str = ""
) -> tuple[Array, Means]:
    """Return the outputs for x, and the updated running means. path: prefix of the layers' paths."""
    for n, layer in enumerate(layers):
        place = f"{path}{n}"
        if isinstance(layer, kinds.Residual):
            straight, means = forward(layer.shortcut, weights, means, x, lengths, f"{place}.shortcut.")
            x, means = forward(layer.branch, weights, means, x, lengths, f"{place}.branch.")
            x = x + straight
        elif isinstance(layer, kinds.BatchNorm):
            x, after = _batch_norm(x, weights[f"{place}.scale"], weights[f"{place}.shift"], means[place])
            means = {**means, place: after}
        else:
            x = _apply(layer, {name: weights[f"{place}.{name}"] for name in layer.weights()}, x, lengths)
    return x, means


def _apply(layer: kinds.Layer, weights: Weights, x: Array, lengths: Array) -> Array:
    match layer:
        case kinds.Dense():
            return x @ weights["kernel"] + weights["bias"]
        case kinds.Convolution(stride=stride, padding=padding):
            axes, pads = ("NHWC", "HWIO", "NHWC"), [(padding, padding)] * 2
            x = lax.conv_general_dilated(x, weights["kernel"], (stride, stride), pads, dimension_numbers=axes)
            return x + weights["bias"] if "bias" in weights else x
        case kinds.Activation(kind):
            return jax.nn.relu(x) if kind == "relu" else jax.nn.sigmoid(x)
        case kinds.MaxPool(size, stride, padding):
            pads = [(0, 0), (padding, padding), (padding, padding), (0, 0)]
            return lax.reduce_window(x, -jnp.inf, lax.max, (1, size, size, 1), (1, stride, stride, 1), pads)
        case kinds.Reshape(kind):
            return x.mean(axis=(1, 2)) if kind == "mean" else x.reshape(len(x), -1) if kind == "flat" else x[:, -1]
        case kinds.Embedding():
            return weights["table"][x]
        case kinds.LSTM():
            return _apply_lstm(layer, weights, x, lengths)
    raise TypeError(layer)


def _apply_lstm(layer: kinds.LSTM, weights: Weights, x: Array, lengths: Array) -> Array:
    """Apply all LSTM layers to x (B, T, D). Backward directions reverse each sequence, but not its padding."""
    position, last = jnp.arange(x.shape[1])[None], lengths[:, None] - 1
    flip = jnp.where(position <= last, last - position, position)[..., None]
    outputs: list[Array] = []
    for _, side, end in layer.places():
        arrays = (weights[f"kernel{end}"], weights[f"recurrent{end}"], weights[f"bias{end}"])
        y = _scan(jnp.take_along_axis(x, flip, axis=1) if side else x, *arrays)
        outputs.append(jnp.take_along_axis(y, flip, axis=1) if side else y)
        if len(outputs) == layer.directions:
            x, outputs = jnp.concatenate(outputs, axis=-1), []
    return x


def _scan(x: Array, kernel: Array, recurrent: Array, bias: Array) -> Array:
    """Apply one LSTM direction to x (B, T, D). The input products of all frames are computed before the loop."""

    def advance(state: tuple[Array, Array], gates: Array) -> tuple[tuple[Array, Array], Array]:
        hidden, cell = state
        entry, forget, new, out = jnp.split(gates + hidden @ recurrent, 4, axis=-1)
        cell = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(entry) * jnp.tanh(new)
        hidden = jax.nn.sigmoid(out) * jnp.tanh(cell)
        return (hidden, cell), hidden

    zeros = jnp.zeros((x.shape[0], recurrent.shape[0]), x.dtype)
    _, outputs = lax.scan(advance, (zeros, zeros), (x @ kernel + bias).swapaxes(0, 1))
    return outputs.swapaxes(0, 1)


def _batch_norm(x: Array, scale: Array, shift: Array, means: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
    mean, variance = x.mean(axis=(0, 1, 2)), x.var(axis=(0, 1, 2))
    old_mean, old_variance = means
    running = (old_mean + MOMENTUM * (mean - old_mean), old_variance + MOMENTUM * (variance - old_variance))
    return (x - mean) * lax.rsqrt(variance + EPSILON) * scale + shift, running

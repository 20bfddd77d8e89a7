"""The networks in JAX: functions of arrays, compiled, without a library of layers."""

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from asr_benchmarks.networks import layers as kinds
from asr_benchmarks.networks.network import EPSILON, LEARNING_RATE, MOMENTUM, Network, samples, values, walk

if TYPE_CHECKING:
    from jax import Array


Weights: TypeAlias = dict[str, Array]
"""Arrays by path, as in network.values."""

Means: TypeAlias = dict[str, tuple[Array, Array]]
"""Running mean and variance of each batch norm, by path."""


def running_means(network: Network) -> Means:
    """Mean and variance of each batch norm before training."""
    norms = [(path, layer.channels) for path, layer in walk(network.layers) if isinstance(layer, kinds.BatchNorm)]
    return {path: (jnp.zeros(channels), jnp.ones(channels)) for path, channels in norms}


def train(
    layers: tuple[kinds.Layer, ...], weights: Weights, means: Means, inputs: Array, classes: Array
) -> tuple[Weights, Means, Array]:
    """One step of gradient descent: weights and running means after it, and the loss before it."""

    def loss(weights: Weights) -> tuple[Array, Means]:
        outputs, after = forward(layers, weights, means, inputs)
        log_probs = jax.nn.log_softmax(outputs)
        return -jnp.take_along_axis(log_probs, classes[..., None], axis=-1).mean(), after

    (value, after), gradients = jax.value_and_grad(loss, has_aux=True)(weights)
    stepped = jax.tree.map(lambda weight, gradient: weight - LEARNING_RATE * gradient, weights, gradients)
    return stepped, after, value


def forward(
    layers: tuple[kinds.Layer, ...], weights: Weights, means: Means, x: Array, path: str = ""
) -> tuple[Array, Means]:
    """Outputs for the inputs x, and the running means after this batch. path: that of the layers in the network."""
    for n, layer in enumerate(layers):
        place = f"{path}{n}"
        if isinstance(layer, kinds.Residual):
            straight, means = forward(layer.shortcut, weights, means, x, f"{place}.shortcut.")
            x, means = forward(layer.branch, weights, means, x, f"{place}.branch.")
            x = x + straight
        elif isinstance(layer, kinds.BatchNorm):
            x, after = _batch_norm(x, weights[f"{place}.scale"], weights[f"{place}.shift"], means[place])
            means = {**means, place: after}
        else:
            x = _apply(layer, {name: weights[f"{place}.{name}"] for name in layer.weights()}, x)
    return x, means


def _apply(layer: kinds.Layer, own: Weights, x: Array) -> Array:
    match layer:
        case kinds.Dense():
            return x @ own["kernel"] + own["bias"]
        case kinds.Convolution(stride=stride, padding=padding):
            axes, pads = ("NHWC", "HWIO", "NHWC"), [(padding, padding)] * 2
            x = lax.conv_general_dilated(x, own["kernel"], (stride, stride), pads, dimension_numbers=axes)
            return x + own["bias"] if "bias" in own else x
        case kinds.Activation(kind):
            return jax.nn.relu(x) if kind == "relu" else jax.nn.sigmoid(x)
        case kinds.MaxPool(size, stride, padding):
            pads = [(0, 0), (padding, padding), (padding, padding), (0, 0)]
            return lax.reduce_window(x, -jnp.inf, lax.max, (1, size, size, 1), (1, stride, stride, 1), pads)
        case kinds.MeanPool():
            return x.mean(axis=(1, 2))
        case kinds.Flatten():
            return x.reshape(len(x), -1)
        case kinds.Embedding():
            return own["table"][x]
        case kinds.LSTM(layers=count):
            for n in range(count):
                x = _lstm(x, own[f"kernel{n}"], own[f"recurrent{n}"], own[f"bias{n}"])
            return x
    raise TypeError(layer)


def _lstm(x: Array, kernel: Array, recurrent: Array, bias: Array) -> Array:
    """One layer over x (B, T, D): the products with the inputs at once, those with the state one after another."""

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
    running = (_moved(means[0], mean), _moved(means[1], variance))
    return (x - mean) * lax.rsqrt(variance + EPSILON) * scale + shift, running


def _moved(running: Array, current: Array) -> Array:
    return running + MOMENTUM * (current - running)


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

        pass

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

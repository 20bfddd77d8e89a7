"""The networks in JAX: functions of arrays, compiled, without a library of layers."""

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

from asr_benchmarks.networks import layers as kinds
from asr_benchmarks.networks.framework import LEARNING_RATE
from asr_benchmarks.networks.network import Network, samples, values, walk

EPSILON, MOMENTUM = 1e-5, 0.1
"""Of batch norm, as PyTorch has them."""


def variables(device: str, threads: int | None) -> dict[str, str]:
    """Of a process of JAX. Its pool of threads is as large as a count of cores that may be set from outside."""
    place = {"JAX_PLATFORMS": "cpu" if device == "cpu" else "cuda", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    return {**place, **({"NPROC": str(threads)} if threads is not None else {})}


def set_precision(tf32: bool) -> None:
    """Of float32 products on GPUs; JAX would round them."""
    import jax

    jax.config.update("jax_default_matmul_precision", "tensorfloat32" if tf32 else "highest")


def peak(device: str) -> int | None:
    """Bytes of the GPU."""
    import jax

    told = jax.devices()[0].memory_stats() if device == "gpu" else None
    return int(told["peak_bytes_in_use"]) if told else None


@dataclass(frozen=True)
class Jax:
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

        self.device = device
        self.weights = {path: jax.device_put(value) for path, value in values(network, seed).items()}
        self.means = running_means(network)
        self.inputs, self.classes = map(jax.device_put, samples(network, batch, seed))
        self.forward = jax.jit(partial(forward, network.layers))
        self.train = jax.jit(partial(train, network.layers), donate_argnums=(0, 1))

    def parameters(self) -> int:
        return sum(value.size for value in self.weights.values())

    def outputs(self) -> Any:
        import numpy as np

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

    def _train(self) -> Any:
        self.weights, self.means, loss = self.train(self.weights, self.means, self.inputs, self.classes)
        return loss


def running_means(network: Network) -> dict[str, Any]:
    """Mean and variance of each batch norm, before training."""
    import jax.numpy as jnp

    norms = [(path, layer.channels) for path, layer in walk(network.layers) if isinstance(layer, kinds.BatchNorm)]
    return {path: (jnp.zeros(channels), jnp.ones(channels)) for path, channels in norms}


def train(layers: tuple[kinds.Layer, ...], weights: Any, means: Any, inputs: Any, classes: Any) -> tuple[Any, Any, Any]:
    """One step of gradient descent: weights, running means, and the loss before it."""
    import jax

    def loss(weights: Any) -> tuple[Any, Any]:
        outputs, after = forward(layers, weights, means, inputs)
        chances = jax.nn.log_softmax(outputs)
        return -jax.numpy.take_along_axis(chances, classes[..., None], axis=-1).mean(), after

    (value, after), gradients = jax.value_and_grad(loss, has_aux=True)(weights)
    stepped = jax.tree.map(lambda weight, gradient: weight - LEARNING_RATE * gradient, weights, gradients)
    return stepped, after, value


def forward(layers: tuple[kinds.Layer, ...], weights: Any, means: Any, x: Any, path: str = "") -> tuple[Any, Any]:
    """Outputs, and the running means after this batch."""
    for n, layer in enumerate(layers):
        here = f"{path}{n}"
        if isinstance(layer, kinds.Residual):
            straight, means = forward(layer.shortcut, weights, means, x, f"{here}.shortcut.")
            x, means = forward(layer.branch, weights, means, x, f"{here}.branch.")
            x = x + straight
        elif isinstance(layer, kinds.BatchNorm):
            x, after = _batch_norm(x, weights[f"{here}.scale"], weights[f"{here}.shift"], means[here])
            means = {**means, here: after}
        else:
            x = _apply(layer, {name: weights[f"{here}.{name}"] for name in layer.weights()}, x)
    return x, means


def _apply(layer: kinds.Layer, own: dict[str, Any], x: Any) -> Any:
    import jax
    from jax import lax

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
            return lax.reduce_window(x, -jax.numpy.inf, lax.max, (1, size, size, 1), (1, stride, stride, 1), pads)
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


def _lstm(x: Any, kernel: Any, recurrent: Any, bias: Any) -> Any:
    """One layer over x (B, T, D): the products with the inputs at once, those with the state one after another."""
    import jax
    from jax import lax

    def advance(state: tuple[Any, Any], gates: Any) -> tuple[tuple[Any, Any], Any]:
        hidden, cell = state
        entry, forget, new, out = jax.numpy.split(gates + hidden @ recurrent, 4, axis=-1)
        cell = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(entry) * jax.numpy.tanh(new)
        hidden = jax.nn.sigmoid(out) * jax.numpy.tanh(cell)
        return (hidden, cell), hidden

    nothing = jax.numpy.zeros((x.shape[0], recurrent.shape[0]), x.dtype)
    _, found = lax.scan(advance, (nothing, nothing), (x @ kernel + bias).swapaxes(0, 1))
    return found.swapaxes(0, 1)


def _batch_norm(x: Any, scale: Any, shift: Any, means: tuple[Any, Any]) -> tuple[Any, tuple[Any, Any]]:
    from jax import lax

    mean, variance = x.mean(axis=(0, 1, 2)), x.var(axis=(0, 1, 2))
    running = tuple(before + MOMENTUM * (now - before) for before, now in zip(means, (mean, variance), strict=True))
    return (x - mean) * lax.rsqrt(variance + EPSILON) * scale + shift, running

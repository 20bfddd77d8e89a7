"""The networks in Keras 3 with TensorFlow or JAX as its backend, and with Keras's own loop, `train_on_batch`."""

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from asr_benchmarks.networks import jax_lax
from asr_benchmarks.networks import layers as kinds
from asr_benchmarks.networks.network import EPSILON, LEARNING_RATE, MOMENTUM, Network, samples, values

if TYPE_CHECKING:
    import keras
    from keras import KerasTensor


@dataclass(frozen=True)
class Keras:
    """The framework Keras with one of its backends."""

    packages: list[str]
    backend: str
    """tensorflow or jax."""

    def environment(self, device: str, threads: int | None) -> dict[str, str]:
        chosen = {"KERAS_BACKEND": self.backend}
        if self.backend == "jax":
            return {**chosen, **jax_lax.variables(device, threads)}
        hidden = {"CUDA_VISIBLE_DEVICES": ""} if device == "cpu" else {}
        return {**chosen, **hidden, "TF_CPP_MIN_LOG_LEVEL": "3", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}

    def trainer(
        self, network: Network, *, batch: int, device: str, threads: int | None, tf32: bool, seed: int
    ) -> "KerasTrainer":
        if self.backend == "jax":
            jax_lax.set_precision(tf32)
        else:
            _tensorflow(device, threads, tf32)
        return KerasTrainer(network, batch, device, seed)


class KerasTrainer:
    def __init__(self, network: Network, batch: int, device: str, seed: int) -> None:
        import keras

        self.device, self.backend = device, keras.backend.backend()
        self.model = model(network, values(network, seed))
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.model.compile(optimizer=keras.optimizers.SGD(LEARNING_RATE), loss=loss)
        inputs, classes = samples(network, batch, seed)
        # as tensors, so that no copying is measured
        self.inputs, self.classes = keras.ops.convert_to_tensor(inputs), keras.ops.convert_to_tensor(classes)

    def parameters(self) -> int:
        return sum(math.prod(variable.shape) for variable in self.model.trainable_variables)

    def outputs(self) -> np.ndarray:
        import keras

        outputs: np.ndarray = keras.ops.convert_to_numpy(self.model(self.inputs[:2], training=True))
        return outputs

    def losses(self, steps: int) -> list[float]:
        return [float(self.model.train_on_batch(self.inputs, self.classes)) for _ in range(steps)]

    def step(self) -> float:
        started = time.perf_counter()
        self.model.train_on_batch(self.inputs, self.classes)
        self._wait()
        return time.perf_counter() - started

    def device_memory(self) -> int | None:
        if self.backend == "jax" or self.device == "cpu":
            return jax_lax.peak(self.device) if self.device == "gpu" else None
        import tensorflow

        return int(tensorflow.config.experimental.get_memory_info("GPU:0")["peak"])

    def _wait(self) -> None:
        """Wait for the update: train_on_batch returns when the loss is known."""
        if self.backend == "jax":
            import jax

            jax.block_until_ready([variable.value for variable in self.model.trainable_variables])
        elif self.device == "gpu":
            import tensorflow

            tensorflow.test.experimental.sync_devices()


def model(network: Network, weights: dict[str, np.ndarray]) -> "keras.Model":
    """The network with these weights. Keras lists the weights of a layer in the same order as layers.py."""
    import keras

    inputs = keras.Input(network.shape, dtype="float32" if network.words is None else "int32")
    trained: list[keras.layers.Layer] = []
    built = keras.Model(inputs, _sequence(network.layers, inputs, trained))
    variables = [variable for layer in trained for variable in layer.trainable_variables]
    for variable, value in zip(variables, weights.values(), strict=True):
        variable.assign(value)
    return built


def _sequence(layers: tuple[kinds.Layer, ...], x: "KerasTensor", trained: "list[keras.layers.Layer]") -> "KerasTensor":
    """The output for a symbolic input x. Layers with weights are appended to `trained`, in order."""
    import keras

    for layer in layers:
        if isinstance(layer, kinds.Residual):
            changed = _sequence(layer.branch, x, trained)
            x = keras.layers.Add()([changed, _sequence(layer.shortcut, x, trained)])
            continue
        for part in _parts(layer):
            x = part(x)
            if part.trainable_variables:
                trained.append(part)
    return x


def _parts(layer: kinds.Layer) -> "list[keras.layers.Layer]":
    """The layers of Keras that correspond to one of ours."""
    from keras import layers as L

    match layer:
        case kinds.Dense(_, outputs):
            return [L.Dense(outputs)]
        case kinds.Convolution(_, outputs, size, stride, padding, bias):
            if stride == 1 and padding == size // 2:
                return [L.Conv2D(outputs, size, padding="same", use_bias=bias)]
            return [*_padded(padding), L.Conv2D(outputs, size, stride, use_bias=bias)]
        case kinds.BatchNorm():
            return [L.BatchNormalization(epsilon=EPSILON, momentum=1 - MOMENTUM)]
        case kinds.Activation(kind):
            return [L.Activation(kind)]
        case kinds.MaxPool(size, stride, padding):
            return [*_padded(padding), L.MaxPooling2D(size, stride)]
        case kinds.MeanPool():
            return [L.GlobalAveragePooling2D()]
        case kinds.Flatten():
            return [L.Flatten()]
        case kinds.Embedding(words, width):
            return [L.Embedding(words, width)]
        case kinds.LSTM(_, hidden, count):
            return [L.LSTM(hidden, return_sequences=True) for _ in range(count)]
    raise TypeError(layer)


def _padded(padding: int) -> "list[keras.layers.Layer]":
    import keras

    return [keras.layers.ZeroPadding2D(padding)] if padding else []


def _tensorflow(device: str, threads: int | None, tf32: bool) -> None:
    """Set TensorFlow's threads and precision. Raises RuntimeError for a GPU that it does not see."""
    import tensorflow

    if device == "gpu" and not tensorflow.config.list_physical_devices("GPU"):
        raise RuntimeError("this TensorFlow sees no GPU")
    if threads is not None:
        tensorflow.config.threading.set_intra_op_parallelism_threads(threads)
        tensorflow.config.threading.set_inter_op_parallelism_threads(threads)
    tensorflow.config.experimental.enable_tensor_float_32_execution(tf32)

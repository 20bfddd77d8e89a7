"""The networks in Keras 3, trained by its `train_on_batch` on TensorFlow or JAX (KERAS_BACKEND)."""

import importlib
import math
import time
from typing import Any

import keras
import numpy as np
from keras import KerasTensor, layers, ops

from asr_benchmarks.frameworks import network as kinds
from asr_benchmarks.frameworks.network import EPSILON, LEARNING_RATE, MOMENTUM, Network, draw_samples, draw_weights
from asr_benchmarks.worker import Step

ADAM_EPSILON = 1e-8 * math.sqrt(1 - 0.999)
"""Epsilon of Keras's Adam, which adds epsilon before the bias correction of the second moment.

With this value, the first step is the same as in the other frameworks with 1e-8. Keras's default of 1e-7 would make
the first steps of deep networks smaller.
"""


class KerasTrainer:
    """A Trainer in Keras. use_cudnn: option of keras.layers.LSTM. Raises ValueError if Keras cannot use the device."""

    def __init__(
        self,
        network: Network,
        *,
        batch: int,
        seed: int,
        device: str,
        threads: int | None,
        tf32: bool,
        use_cudnn: bool | str = "auto",
    ) -> None:
        self.device = _prepare_backend(device, threads, tf32)
        self.model = Model(network, use_cudnn)
        adam = network.optimizer == "adam"
        self.model.compile(
            optimizer=keras.optimizers.Adam(epsilon=ADAM_EPSILON) if adam else keras.optimizers.SGD(LEARNING_RATE)
        )
        inputs, lengths, targets = draw_samples(network, batch, seed)
        self.batch: Any = ((inputs, lengths), targets)
        if not network.copied:
            self.batch = keras.tree.map_structure(ops.convert_to_tensor, self.batch)
        self.model(self._first(1))  # creates the weights
        for variable, value in zip(self.model.list_trained(), draw_weights(network, seed).values(), strict=True):
            variable.assign(value)

    def parameters(self) -> int:
        return sum(math.prod(variable.shape) for variable in self.model.trainable_variables)

    def outputs(self, count: int | None = None) -> np.ndarray:
        outputs: np.ndarray = ops.convert_to_numpy(self.model(self._first(count), training=True))
        return outputs

    def step(self) -> Step:
        started = time.perf_counter()
        loss = self.model.train_on_batch(*self.batch)
        self._wait()
        return Step(time.perf_counter() - started, float(loss))

    def device_memory(self) -> int | None:
        if keras.backend.backend() == "jax":
            from asr_benchmarks.frameworks.jax_lax import read_jax_memory

            return read_jax_memory(self.device)
        import tensorflow

        return int(tensorflow.config.experimental.get_memory_info("GPU:0")["peak"]) if self.device == "gpu" else None

    def versions(self) -> dict[str, str]:
        name = keras.backend.backend()
        return {"keras": keras.__version__, name: importlib.import_module(name).__version__}

    def _first(self, count: int | None) -> Any:
        (inputs, lengths), _ = self.batch
        return inputs[:count], lengths[:count]

    def _wait(self) -> None:
        """Wait for the weight update, because train_on_batch returns as soon as the loss is computed."""
        if keras.backend.backend() == "jax":
            import jax

            jax.block_until_ready([variable.value for variable in self.model.trainable_variables])
        elif self.device == "gpu":
            import tensorflow

            tensorflow.test.experimental.sync_devices()


def _prepare_backend(device: str, threads: int | None, tf32: bool) -> Any:
    """Configure the backend. Return a jax.Device for JAX, or `device` ("cpu" or "gpu") for TensorFlow."""
    if keras.backend.backend() == "jax":
        from asr_benchmarks.frameworks.jax_lax import prepare_jax

        return prepare_jax(device, tf32)
    import tensorflow

    if (device == "gpu") != bool(tensorflow.config.list_physical_devices("GPU")):
        raise ValueError(f"this build of TensorFlow does not compute on {device}")
    if threads is not None:
        tensorflow.config.threading.set_intra_op_parallelism_threads(threads)
        tensorflow.config.threading.set_inter_op_parallelism_threads(threads)
    tensorflow.config.experimental.enable_tensor_float_32_execution(tf32)
    return device


class Model(keras.Model):
    """A Network as a Keras model: (inputs, lengths) → outputs. parts: Keras layers by path in the Network."""

    def __init__(self, network: Network, use_cudnn: bool | str) -> None:
        super().__init__()
        self.network = network
        self.parts = {path: _build_parts(layer, use_cudnn) for path, layer in kinds.walk(network.layers)}

    def list_trained(self) -> list[Any]:
        """Return the trained variables in the order of draw_weights. Within a layer, Keras uses the same order."""
        return [variable for parts in self.parts.values() for part in parts for variable in part.trainable_variables]

    def call(self, inputs: tuple[KerasTensor, KerasTensor], training: bool | None = None) -> KerasTensor:
        x, lengths = inputs
        # if all frames are valid, a mask would only cost time
        mask = ops.arange(x.shape[1])[None] < lengths[:, None] if self.network.variable else None
        # layers must be given `training`, because they cannot infer it in a stateless call
        return self._apply(
            self.network.layers, x, {kinds.LSTM: {"mask": mask}, kinds.BatchNorm: {"training": training}}
        )

    def _apply(self, ours: tuple[kinds.Layer, ...], x: KerasTensor, keys: Any, path: str = "") -> KerasTensor:
        for n, layer in enumerate(ours):
            if isinstance(layer, kinds.Residual):
                branch = self._apply(layer.branch, x, keys, f"{path}{n}.branch.")
                x = branch + self._apply(layer.shortcut, x, keys, f"{path}{n}.shortcut.")
            elif layer == kinds.Reshape("last"):
                x = x[:, -1]
            else:
                for part in self.parts[f"{path}{n}"]:
                    x = part(x, **keys.get(type(layer), {}))
        return x

    def compute_loss(self, x: Any, y: Any, y_pred: Any, sample_weight: object = None, training: bool = True) -> Any:
        if self.network.loss == "ce":
            return ops.mean(keras.losses.sparse_categorical_crossentropy(y, y_pred, from_logits=True))
        labels = self.network.labels  # ops.ctc_loss accepts lengths, whereas keras.losses.CTC does not
        counts = ops.full((y.shape[0],), labels, dtype="int32")
        return ops.mean(ops.ctc_loss(y, y_pred, counts, x[1], mask_index=0)) / labels


def _build_parts(layer: kinds.Layer, use_cudnn: bool | str) -> list[Any]:
    """Build the Keras layers that correspond to one layer of a Network."""
    padding = getattr(layer, "padding", 0)
    pad = [layers.ZeroPadding2D(padding)] if padding else []
    match layer:
        case kinds.Dense(_, outputs):
            return [layers.Dense(outputs)]
        case kinds.Convolution(_, outputs, size, stride, _, bias):
            if stride == 1 and padding == size // 2:
                return [layers.Conv2D(outputs, size, padding="same", use_bias=bias)]
            return [*pad, layers.Conv2D(outputs, size, stride, use_bias=bias)]
        case kinds.BatchNorm():
            return [layers.BatchNormalization(epsilon=EPSILON, momentum=1 - MOMENTUM)]
        case kinds.Activation(kind):
            return [layers.Activation(kind)]
        case kinds.MaxPool(size, stride):
            return [*pad, layers.MaxPooling2D(size, stride)]
        case kinds.Reshape(kind):  # selecting the last frame needs no layer
            return {"mean": [layers.GlobalAveragePooling2D()], "flat": [layers.Flatten()], "last": []}[kind]
        case kinds.Embedding(words, width):
            return [layers.Embedding(words, width)]
        case kinds.LSTM(_, hidden, count, directions):
            parts = [layers.LSTM(hidden, return_sequences=True, use_cudnn=use_cudnn) for _ in range(count)]
            return [layers.Bidirectional(part) for part in parts] if directions == 2 else parts
    raise TypeError(layer)

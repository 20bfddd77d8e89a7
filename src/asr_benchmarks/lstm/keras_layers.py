"""The networks in Keras 3 over TensorFlow or JAX (KERAS_BACKEND): its LSTM layers and its train_on_batch."""

import math
import time
from typing import TYPE_CHECKING

import numpy as np

from asr_benchmarks.lstm.configuration import Configuration, Weights, draw_batch, draw_weights

if TYPE_CHECKING:
    import jax
    import keras
    from keras import KerasTensor

EPSILON = 1e-8 * math.sqrt(1 - 0.999)
"""Adam's epsilon. Keras adds it before it corrects the bias of the second moment: with this value its first step, which
is compared, equals that of the other frameworks with 1e-8. Keras's default of 1e-7 shrinks the first steps of deep
networks, whose lowest gradients are no larger.
"""


class KerasLayers:
    """A Training. use_cudnn: as in keras.layers.LSTM. Keras compiles the step, with XLA if possible.

    Raises ValueError for a GPU that the backend does not see.
    """

    def __init__(self, *, use_cudnn: bool | str, configuration: Configuration, seed: int, device: str) -> None:
        import keras

        self.device = _device(keras.backend.backend(), device)
        self.network = _network(configuration, use_cudnn)
        batch = draw_batch(configuration, seed)
        self.batch = ((batch.x, batch.lengths.astype(np.int32)), batch.labels.astype(np.int32))
        self.network.compile(optimizer=keras.optimizers.Adam(epsilon=EPSILON))
        self.network(self.batch[0])  # creates the weights
        _fill(self.network, draw_weights(configuration, seed))

    def outputs(self) -> np.ndarray:
        logits: np.ndarray = self.network.predict_on_batch(self.batch[0])
        return logits

    def step(self) -> tuple[float, float]:
        started = time.perf_counter()
        loss = float(self.network.train_on_batch(*self.batch))  # as a number, so that it is waited for
        return time.perf_counter() - started, loss

    def device_memory(self) -> int | None:
        if self.device is not None:
            from asr_benchmarks.lstm.jax_scan import jax_memory

            return jax_memory(self.device)
        import tensorflow

        gpu = tensorflow.config.list_physical_devices("GPU")
        return int(tensorflow.config.experimental.get_memory_info("GPU:0")["peak"]) if gpu else None

    def versions(self) -> dict[str, str]:
        import importlib

        import keras

        name = keras.backend.backend()
        return {"keras": keras.__version__, name: importlib.import_module(name).__version__}


def _device(backend: str, kind: str) -> "jax.Device | None":
    """Prepare the backend for a device, cpu or cuda, and return it if the backend is JAX."""
    if backend == "jax":
        import jax

        from asr_benchmarks.lstm.jax_scan import jax_device

        jax.config.update("jax_default_matmul_precision", "float32")
        return jax_device(kind)
    import tensorflow

    tensorflow.config.experimental.enable_tensor_float_32_execution(False)
    gpus = tensorflow.config.list_physical_devices("GPU")
    if bool(gpus) != (kind == "cuda"):
        raise ValueError(f"this build of TensorFlow computes on {'cuda' if gpus else 'cpu'}, not on {kind}")
    return None


def _network(configuration: Configuration, use_cudnn: bool | str) -> "keras.Model":
    import keras
    from keras import ops

    class Network(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.recurrent = [_layer(configuration, use_cudnn) for _ in range(configuration.layers)]
            self.output_layer = keras.layers.Dense(configuration.outputs)

        def call(self, inputs: "tuple[KerasTensor, KerasTensor]") -> "KerasTensor":
            x, lengths = inputs
            # if all frames are valid, a mask only costs time
            mask = ops.arange(x.shape[1])[None] < lengths[:, None] if configuration.variable else None
            for layer in self.recurrent:
                x = layer(x, mask=mask)
            return self.output_layer(x if configuration.loss == "ctc" else x[:, -1])

        def compute_loss(
            self,
            x: "tuple[KerasTensor, KerasTensor]",
            y: "KerasTensor",
            y_pred: "KerasTensor",
            sample_weight: object = None,
            training: bool = True,
        ) -> "KerasTensor":  # Keras's own has no lengths
            if configuration.loss == "ce":
                nats = keras.losses.sparse_categorical_crossentropy(y[:, 0], y_pred, from_logits=True)
                return ops.mean(nats)
            counts = ops.full((configuration.batch,), configuration.labels, dtype="int32")
            return ops.mean(ops.ctc_loss(y, y_pred, counts, x[1], mask_index=0)) / configuration.labels

    return Network()


def _layer(configuration: Configuration, use_cudnn: bool | str) -> "keras.layers.Layer":
    from keras import layers

    lstm = layers.LSTM(configuration.units, return_sequences=True, use_cudnn=use_cudnn)
    return layers.Bidirectional(lstm) if configuration.bidirectional else lstm


def _fill(network: "keras.Model", weights: Weights) -> None:
    """Set the weights. Keras stacks the gates as torch does, i, f, candidate, o, and multiplies from the other side."""
    for layer, directions in zip(network.recurrent, weights.layers, strict=True):
        layer.set_weights([value.T for direction in directions for value in direction])
    network.output_layer.set_weights([weights.output.T, weights.bias])

"""The networks in Keras 3 over TensorFlow or JAX, which KERAS_BACKEND says: its LSTM layers and its train_on_batch."""

import math
import time
from typing import Any

import numpy as np

from asr_benchmarks.lstm.configuration import Configuration, Weights, draw_batch, draw_weights

EPSILON = 1e-8 * math.sqrt(1 - 0.999)
"""Of Adam. Keras adds it before it corrects the second moment's bias: so its first step, which is compared, is that of
the other frameworks' 1e-8. Its own 1e-7 shrinks the first steps of deep networks, whose lowest gradients are no larger.
"""


class KerasLayers:
    """use_cudnn: of keras.layers.LSTM. Keras compiles the step, with XLA where it can. Raises ValueError where a GPU
    is asked for that the backend does not see.
    """

    def __init__(self, *, use_cudnn: bool | str, configuration: Configuration, seed: int, device: str) -> None:
        import keras

        self.device = _device(keras.backend.backend(), device)
        self.network = _network(configuration, use_cudnn)
        batch = draw_batch(configuration, seed)
        self.batch = ((batch.x, batch.lengths.astype(np.int32)), batch.labels.astype(np.int32))
        self.network.compile(optimizer=keras.optimizers.Adam(epsilon=EPSILON))
        self.network(self.batch[0])  # makes the weights
        _fill(self.network, draw_weights(configuration, seed))

    def outputs(self) -> np.ndarray:
        logits: np.ndarray = self.network.predict_on_batch(self.batch[0])
        return logits

    def step(self) -> tuple[float, float]:
        started = time.perf_counter()
        loss = float(self.network.train_on_batch(*self.batch))  # as a number, hence waited for
        return time.perf_counter() - started, loss

    def device_memory(self) -> int | None:
        import keras

        if keras.backend.backend() == "jax":
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


def _device(backend: str, kind: str) -> Any:
    if backend == "jax":
        import jax

        from asr_benchmarks.lstm.jax_scan import jax_device

        jax.config.update("jax_default_matmul_precision", "float32")
        return jax_device(kind)
    import tensorflow

    tensorflow.config.experimental.enable_tensor_float_32_execution(False)
    seen = tensorflow.config.list_physical_devices("GPU")
    if bool(seen) != (kind == "cuda"):
        raise ValueError(f"this build of TensorFlow computes on {'cuda' if seen else 'cpu'}, not on {kind}")
    return None


def _network(configuration: Configuration, use_cudnn: bool | str) -> Any:
    import keras
    from keras import ops

    class Network(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.recurrent = [_layer(configuration, use_cudnn) for _ in range(configuration.layers)]
            self.output_layer = keras.layers.Dense(configuration.outputs)

        def call(self, inputs: Any) -> Any:
            x, lengths = inputs
            # all frames valid: then the mask only costs
            mask = ops.arange(x.shape[1])[None] < lengths[:, None] if configuration.variable else None
            for layer in self.recurrent:
                x = layer(x, mask=mask)
            return self.output_layer(x if configuration.loss == "ctc" else x[:, -1])

        def compute_loss(
            self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None, training: bool = True
        ) -> Any:  # Keras's own has no lengths
            if configuration.loss == "ce":
                nats = keras.losses.sparse_categorical_crossentropy(y[:, 0], y_pred, from_logits=True)
                return ops.mean(nats)
            counts = ops.full((configuration.batch,), configuration.labels, dtype="int32")
            return ops.mean(ops.ctc_loss(y, y_pred, counts, x[1], mask_index=0)) / configuration.labels

    return Network()


def _layer(configuration: Configuration, use_cudnn: bool | str) -> Any:
    from keras import layers

    lstm = layers.LSTM(configuration.units, return_sequences=True, use_cudnn=use_cudnn)
    return layers.Bidirectional(lstm) if configuration.bidirectional else lstm


def _fill(network: Any, weights: Weights) -> None:
    """Keras stacks the gates as torch does, i, f, candidate, o, and multiplies from the other side."""
    for layer, directions in zip(network.recurrent, weights.layers, strict=True):
        layer.set_weights([value.T for direction in directions for value in direction])
    network.output_layer.set_weights([weights.output.T, weights.bias])

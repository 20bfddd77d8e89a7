"""RETURNN's own TensorFlow engine, with TensorFlow's LSTM cell in a loop over the frames."""

import logging
import os
import warnings
from collections.abc import Mapping
from contextlib import redirect_stdout
from importlib.metadata import version

import numpy as np
import torch

from asr_benchmarks.toolkit.network import About, Network, Settings, frame_error_rate
from asr_benchmarks.toolkit.returnn import ReturnnEngine


class ReturnnTensorflow(ReturnnEngine):
    """An engine. Its cells have one bias where PyTorch's have two, both of which are updated: from the second step on
    its weights are others. Its process holds PyTorch, too, which makes the first weights and counts the errors.

    RETURNN's own kernel (NativeLSTM2), compiled at its first use, needs CUDA's headers with TensorFlow 2.21, on a CPU
    as well.
    """

    requires = (*ReturnnEngine.requires, "tensorflow")
    devices = ("cpu",)

    def __init__(self, folder: str, settings: Settings, config: str) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        warnings.filterwarnings("ignore", module="tensorflow.*")
        warnings.filterwarnings("ignore", module="returnn.*")
        logging.getLogger("tensorflow").setLevel(logging.ERROR)
        super().__init__(folder, settings)
        network, session = self.engine.network, self.engine.tf_session
        with redirect_stdout(self.log):
            for layer, values in weights(settings).items():
                network.layers[layer].set_param_values_by_dict(values, session=session)
        self._logits = network.get_default_output_layer().output_before_activation.get_logits()  # (T, B, V)

    def options(self) -> dict[str, object]:
        """The network, and the optimizer of TensorFlow that is plain momentum."""
        settings, source, layers = self.settings, "data", {}
        for number in range(settings.layers):
            layers[_layer(number)] = {
                "class": "rec",
                "unit": "StandardLSTM",
                "unit_opts": {"forget_bias": 0.0},
                "n_out": settings.width,
                "from": source,
            }
            source = _layer(number)
        output = {"class": "softmax", "loss": "ce", "loss_opts": {"use_normalized_loss": True}, "from": source}
        return {
            "backend": "tensorflow-net-dict",
            "network": {**layers, "output": output},
            "optimizer": {"class": "momentum", "momentum": settings.momentum},
        }

    def train(self, number: int) -> None:
        """Train one epoch, its utterances in a new order."""
        self.engine.epoch = number
        self.engine.dataset_batches.clear()
        self.engine.train_data.init_seq_order(epoch=number)
        self.engine.init_train_epoch()
        self.engine.train_epoch()

    def trained(self, error: Mapping[str, float]) -> tuple[int, float]:
        """The frames of the batches that the engine took."""
        batches = self.engine.dataset_batches["train"].cache
        frames = sum(int(sequence.frame_length["classes"]) for batch in batches for sequence in batch.seqs)
        return frames, float(error["train_score"])

    def error_rate(self) -> float:
        """Frame error rate on the held-out frames, in %."""
        return frame_error_rate(self._run, self.frames)

    def _run(self, x: torch.Tensor) -> torch.Tensor:
        """Features (B, T, D) → logits (B, T, V)."""
        network = self.engine.network
        data = network.extern_data.data["data"]
        fed = {
            data.placeholder: x.numpy(),
            data.get_sequence_lengths(): np.full(len(x), x.shape[1], np.int32),
            network.train_flag: False,
        }
        logits = self.engine.tf_session.run(self._logits, feed_dict=fed)
        return torch.from_numpy(np.ascontiguousarray(logits.transpose(1, 0, 2)))

    def about(self) -> About:
        """The versions; the memory is the process's."""
        return {"version": f"returnn {version('returnn')} over tensorflow {_tensorflow()}", "memory": None}


def weights(settings: Settings) -> dict[str, dict[str, np.ndarray]]:
    """The first weights of the Network, by layer and parameter, as TensorFlow's cells have them: input above recurrent
    weights (in + width, 4 × width), the gates in the order input, candidate, forget, output.
    """
    network = Network(settings)
    found = {"output": {"W": network.output.weight.detach().numpy().T, "b": network.output.bias.detach().numpy()}}
    for number in range(settings.layers):
        w, u, b, c = (
            parameter.detach().numpy().reshape(4, settings.width, -1)[[0, 2, 1, 3]].reshape(4 * settings.width, -1)
            for parameter in network.lstm.all_weights[number]
        )
        found[_layer(number)] = {
            "lstm_cell/kernel": np.concatenate([w, u], axis=1).T,
            "lstm_cell/bias": (b + c)[:, 0],
        }
    return found


def _layer(number: int) -> str:
    return f"lstm{number}"


def _tensorflow() -> str:
    import tensorflow

    return str(tensorflow.__version__)

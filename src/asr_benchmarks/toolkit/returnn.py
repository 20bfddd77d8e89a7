"""RETURNN's engines for PyTorch, and for TensorFlow with an LSTM cell in a loop over frames."""

import logging
import os
import warnings
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import redirect_stdout
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from asr_ablations.tools.machine import device_clock
from asr_benchmarks.toolkit.network import Engine, Frames, Network, Settings
from asr_benchmarks.worker import Step

if TYPE_CHECKING:
    from returnn.tensor import TensorDict


class CountingNetwork(Network):
    """A Network with a counter for the frames it is trained on."""

    trained_frames = 0


def get_model(**options: object) -> CountingNetwork:
    """Build the network. RETURNN's engine calls this."""
    from returnn.config import get_global_config

    return CountingNetwork(get_global_config().typed_value("settings"))


def train_step(*, model: CountingNetwork, extern_data: "TensorDict", **options: object) -> None:
    """Pass the cross-entropy of each frame to RETURNN's engine, which calls this function and minimises the mean."""
    import returnn.frontend as rf

    data, classes = extern_data["data"], extern_data["classes"]
    logits = model(data.raw_tensor)  # (B, T, V)
    labels = classes.raw_tensor.long()
    loss = cross_entropy(logits.transpose(1, 2), labels, reduction="none")
    model.trained_frames += labels.numel()
    rf.get_run_ctx().mark_as_loss(loss, "ce", dims=list(classes.dims), use_normalized_loss=True)


class ReturnnEngine(Engine):
    """Base class of RETURNN's engines, which writes the data, runs one epoch at a time and logs to a file."""

    def __init__(self, folder: str, settings: Settings, config: str) -> None:
        from returnn import __main__ as program

        super().__init__(folder, settings, config)
        data = self.folder / "train.hdf"
        if not data.exists():
            write_hdf(self.frames, data)
        self.log = (self.folder / f"{type(self).__name__.lower()}.log").open("w", buffering=1)
        with redirect_stdout(self.log):
            program.init(config_updates={**_options(settings, data), **self.options()})
            self.engine = program.engine
            self.engine.init_train_from_config(program.config, program.train_data)
        self.epochs = 0

    @abstractmethod
    def options(self) -> dict[str, object]:
        """Return the options in RETURNN's config that only this engine needs."""

    def train(self, number: int) -> None:
        """Train one epoch in the same way as RETURNN's loop over epochs."""
        self.engine.set_epoch(number)
        self.engine.init_train_epoch()
        self.engine.train_epoch()

    @abstractmethod
    def read_epoch(self, error: Mapping[str, float]) -> tuple[float, int]:
        """Return the mean loss and the number of frames of the last epoch. error: losses that RETURNN reported."""

    def step(self) -> Step:
        """Train one epoch. The loss and the number of updates come from RETURNN's records."""
        self.epochs += 1
        started = device_clock(self.settings.device)
        with redirect_stdout(self.log):
            self.train(self.epochs)
        seconds = device_clock(self.settings.device) - started
        record = self.engine.learning_rate_control.epoch_data[self.epochs]
        return Step(seconds, *self.read_epoch(record.error), record.meta["epoch_num_train_steps"])

    def versions(self) -> dict[str, str]:
        return {"returnn": version("returnn")}


class Returnn(ReturnnEngine):
    """RETURNN with PyTorch. loader_processes: processes that read data, or 0 to read it in the training process."""

    def __init__(self, folder: str, settings: Settings, config: str, *, loader_processes: int) -> None:
        # suppresses a warning about a missing GPU
        logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)
        self.loader_processes = loader_processes
        super().__init__(folder, settings, config)

    def options(self) -> dict[str, object]:
        """Return the options for the network and the training step in PyTorch."""
        return {
            "backend": "torch",
            "torch_dataloader_opts": {"num_workers": self.loader_processes},
            "settings": self.settings,
            "get_model": get_model,
            "train_step": train_step,
            "optimizer": {"class": "SGD", "momentum": self.settings.momentum},
        }

    def read_epoch(self, error: Mapping[str, float]) -> tuple[float, int]:
        frames, self._network.trained_frames = self._network.trained_frames, 0
        return float(error["train_loss_ce"]), frames

    def compute_logits(self, x: torch.Tensor) -> torch.Tensor:
        return self._network.eval()(x)

    @property
    def _network(self) -> CountingNetwork:
        network: CountingNetwork = self.engine._pt_model  # RETURNN has no public name for the network
        return network


def _options(settings: Settings, data: Path) -> dict[str, object]:
    """Return the options that all RETURNN engines share. data: file written by write_hdf."""
    return {
        "behavior_version": 21,
        "task": "train",
        "device": {"cpu": "cpu", "cuda": "gpu"}[settings.device],
        # no cache, because a thread would fill it during the first batches, sometimes too late to serve them
        "train": {"class": "HDFDataset", "files": [str(data)], "cache_byte_size": 0, "seq_ordering": "random"},
        "extern_data": {"data": {"dim": settings.features}, "classes": {"dim": settings.labels, "sparse": True}},
        "chunking": f"{settings.chunk}:{settings.chunk}",
        "batch_size": settings.batch * settings.chunk,
        "max_seqs": settings.batch,
        "learning_rate": settings.lr,
        "random_seed": settings.seed,
        "num_epochs": 1,  # not used, because epochs are started one by one
        "model": None,
        "log_verbosity": [3],
    }


def write_hdf(frames: Frames, path: Path) -> None:
    """Write the training utterances to a file in the format that RETURNN's HDFDataset reads."""
    from returnn.datasets.hdf import SimpleHDFWriter

    settings = frames.settings
    kinds = {"classes": (settings.labels, 1, "int32")}
    with SimpleHDFWriter(str(path), dim=settings.features, ndim=2, extra_type=kinds) as file:
        for number in range(frames.train_utterances):
            x, y = frames.features[number : number + 1], frames.labels[number : number + 1]
            file.insert_batch(np.asarray(x), [x.shape[1]], [f"utterance-{number}"], extra={"classes": np.asarray(y)})


class ReturnnTensorflow(ReturnnEngine):
    """RETURNN with TensorFlow. Its weights equal PyTorch's only until the first step.

    Afterwards they differ, because TensorFlow's cells have one bias, whereas PyTorch's have two. RETURNN's own LSTM
    kernel is not used, because with TensorFlow 2.21 it needs CUDA's headers even on a CPU.
    """

    def __init__(self, folder: str, settings: Settings, config: str) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        warnings.filterwarnings("ignore", module="tensorflow.*")
        warnings.filterwarnings("ignore", module="returnn.*")
        logging.getLogger("tensorflow").setLevel(logging.ERROR)
        super().__init__(folder, settings, config)
        network, session = self.engine.network, self.engine.tf_session
        with redirect_stdout(self.log):
            for layer, values in draw_first_weights(settings).items():
                network.layers[layer].set_param_values_by_dict(values, session=session)
        self._logits = network.get_default_output_layer().output_before_activation.get_logits()  # (T, B, V)

    def options(self) -> dict[str, object]:
        """Return the options for the network in TensorFlow, and for gradient descent with momentum."""
        settings, source, layers = self.settings, "data", {}
        for number in range(settings.layers):
            layers[f"lstm{number}"] = {
                "class": "rec",
                "unit": "StandardLSTM",
                "unit_opts": {"forget_bias": 0.0},
                "n_out": settings.width,
                "from": source,
            }
            source = f"lstm{number}"
        output = {"class": "softmax", "loss": "ce", "loss_opts": {"use_normalized_loss": True}, "from": source}
        return {
            "backend": "tensorflow-net-dict",
            "network": {**layers, "output": output},
            "optimizer": {"class": "momentum", "momentum": settings.momentum},
        }

    def train(self, number: int) -> None:
        """Train one epoch, after shuffling the utterances."""
        self.engine.epoch = number
        self.engine.dataset_batches.clear()
        self.engine.train_data.init_seq_order(epoch=number)
        self.engine.init_train_epoch()
        self.engine.train_epoch()

    def read_epoch(self, error: Mapping[str, float]) -> tuple[float, int]:
        batches = self.engine.dataset_batches["train"].cache
        frames = sum(int(sequence.frame_length["classes"]) for batch in batches for sequence in batch.seqs)
        return float(error["train_score"]), frames

    def compute_logits(self, x: torch.Tensor) -> torch.Tensor:
        network = self.engine.network
        data = network.extern_data.data["data"]
        fed = {
            data.placeholder: x.numpy(),
            data.get_sequence_lengths(): np.full(len(x), x.shape[1], np.int32),
            network.train_flag: False,
        }
        logits = self.engine.tf_session.run(self._logits, feed_dict=fed)
        return torch.from_numpy(np.ascontiguousarray(logits.transpose(1, 0, 2)))

    def versions(self) -> dict[str, str]:
        import tensorflow

        return {**super().versions(), "tensorflow": str(tensorflow.__version__)}


def draw_first_weights(settings: Settings) -> dict[str, dict[str, np.ndarray]]:
    """Return the Network's initial weights in the layout of TensorFlow's cells, by layer and parameter.

    In a kernel (in + width, 4 × width), input weights come before recurrent weights. The gates are in the order input,
    candidate, forget, output.
    """
    network = Network(settings)
    output = {"W": network.output.weight.detach().numpy().T, "b": network.output.bias.detach().numpy()}
    by_layer = {"output": output}
    for number in range(settings.layers):
        w, u, b, c = (
            parameter.detach().numpy().reshape(4, settings.width, -1)[[0, 2, 1, 3]].reshape(4 * settings.width, -1)
            for parameter in network.lstm.all_weights[number]
        )
        cell = {"lstm_cell/kernel": np.concatenate([w, u], axis=1).T, "lstm_cell/bias": (b + c)[:, 0]}
        by_layer[f"lstm{number}"] = cell
    return by_layer

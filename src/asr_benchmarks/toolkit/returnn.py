"""RETURNN's own PyTorch engine, and what its engines share: data sets, chunking, batching and loop."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import redirect_stdout
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from torch.nn.functional import cross_entropy

from asr_ablations.tools.machine import device_clock
from asr_benchmarks.toolkit.network import (
    About,
    CountedEpoch,
    Frames,
    Network,
    Settings,
    device_memory,
    frame_error_rate,
)

if TYPE_CHECKING:
    from returnn.tensor import TensorDict


class CountingNetwork(Network):
    """The network, with a count of the frames that it was trained on."""

    trained_frames = 0

    def take_frames(self) -> int:
        """The frames since the last call."""
        frames, self.trained_frames = self.trained_frames, 0
        return frames


def get_model(**options: object) -> CountingNetwork:
    """The network for RETURNN's engine, which calls this."""
    from returnn.config import get_global_config

    return CountingNetwork(get_global_config().typed_value("settings"))


def train_step(*, model: CountingNetwork, extern_data: "TensorDict", **options: object) -> None:
    """Give RETURNN's engine, which calls this, the loss of a step: its mean over the frames is minimised."""
    import returnn.frontend as rf

    data, classes = extern_data["data"], extern_data["classes"]
    logits = model(data.raw_tensor)  # (B, T, V)
    labels = classes.raw_tensor.long()
    loss = cross_entropy(logits.transpose(1, 2), labels, reduction="none")
    model.trained_frames += labels.numel()
    rf.get_run_ctx().mark_as_loss(loss, "ce", dims=list(classes.dims), use_normalized_loss=True)


class ReturnnEngine(ABC):
    """What RETURNN's engines share: the data, the loop over epochs that RETURNN has, and its log."""

    requires: tuple[str, ...] = ("returnn", "tree", "h5py")  # returnn imports the latter two without requiring them

    def __init__(self, folder: str, settings: Settings) -> None:
        from returnn import __main__ as program

        self.frames, self.settings = Frames(Path(folder), settings), settings
        data = Path(folder) / "train.hdf"
        if not data.exists():
            write_hdf(self.frames, data)
        self.log = (Path(folder) / f"{type(self).__name__.lower()}.log").open("w", buffering=1)
        with redirect_stdout(self.log):
            program.init(config_updates={**_options(settings, data), **self.options()})
            self.engine = program.engine
            self.engine.init_train_from_config(program.config, program.train_data)
        self.epochs = 0

    @abstractmethod
    def options(self) -> dict[str, object]:
        """What RETURNN's config holds for this engine alone."""

    def train(self, number: int) -> None:
        """Train one epoch, as RETURNN's own loop over epochs does."""
        self.engine.set_epoch(number)
        self.engine.init_train_epoch()
        self.engine.train_epoch()

    @abstractmethod
    def trained(self, error: Mapping[str, float]) -> tuple[int, float]:
        """The frames of the epoch that was trained, and the mean loss among RETURNN's figures for it."""

    def epoch(self) -> CountedEpoch:
        """Train one epoch; frames, loss and steps are those that RETURNN counted."""
        self.epochs += 1
        started = device_clock(self.settings.device)
        with redirect_stdout(self.log):
            self.train(self.epochs)
        seconds = device_clock(self.settings.device) - started
        record = self.engine.learning_rate_control.epoch_data[self.epochs]
        frames, loss = self.trained(record.error)
        return {"seconds": seconds, "frames": frames, "loss": loss, "steps": record.meta["epoch_num_train_steps"]}


class Returnn(ReturnnEngine):
    """An engine. loader_processes: those of RETURNN's data loader; 0 reads in the training process, as the other
    engines do.
    """

    def __init__(self, folder: str, settings: Settings, config: str, *, loader_processes: int) -> None:
        # it warns of a missing GPU where none is wanted
        logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)
        self.loader_processes = loader_processes
        super().__init__(folder, settings)

    def options(self) -> dict[str, object]:
        """PyTorch's network and step."""
        return {
            "backend": "torch",
            "torch_dataloader_opts": {"num_workers": self.loader_processes},
            "settings": self.settings,
            "get_model": get_model,
            "train_step": train_step,
            "optimizer": {"class": "SGD", "momentum": self.settings.momentum},
        }

    def trained(self, error: Mapping[str, float]) -> tuple[int, float]:
        """The frames that the network counted."""
        return self._network.take_frames(), float(error["train_loss_ce"])

    def error_rate(self) -> float:
        """Frame error rate on the held-out frames, in %."""
        return frame_error_rate(self._network.eval(), self.frames)

    @property
    def _network(self) -> "CountingNetwork":
        network: CountingNetwork = self.engine._pt_model  # RETURNN has no public name for it
        return network

    def about(self) -> About:
        """RETURNN's version, and the memory."""
        return {"version": f"returnn {version('returnn')}", "memory": device_memory(self.settings.device)}


def _options(settings: Settings, data: Path) -> dict[str, object]:
    """What all of RETURNN's engines have in their config. data: the file of write_hdf."""
    return {
        "behavior_version": 21,
        "task": "train",
        "device": {"cpu": "cpu", "cuda": "gpu"}[settings.device],
        # no cache of its own: a thread fills it while the first batches are read, and is sometimes too late
        "train": {"class": "HDFDataset", "files": [str(data)], "cache_byte_size": 0, "seq_ordering": "random"},
        "extern_data": {
            "data": {"dim": settings.features},
            "classes": {"dim": settings.labels, "sparse": True},
        },
        "chunking": f"{settings.chunk}:{settings.chunk}",
        "batch_size": settings.batch * settings.chunk,
        "max_seqs": settings.batch,
        "learning_rate": settings.lr,
        "random_seed": settings.seed,
        "num_epochs": 1,  # never used: epochs are started one by one
        "model": None,
        "log_verbosity": [3],
    }


def write_hdf(frames: Frames, path: Path) -> None:
    """Write the training utterances in the format that RETURNN's HDFDataset reads."""
    from returnn.datasets.hdf import SimpleHDFWriter

    settings = frames.settings
    kinds = {"classes": (settings.labels, 1, "int32")}
    with SimpleHDFWriter(str(path), dim=settings.features, ndim=2, extra_type=kinds) as file:
        for number in range(frames.train_utterances):
            x, y = frames.features[number : number + 1], frames.labels[number : number + 1]
            file.insert_batch(np.asarray(x), [x.shape[1]], [f"utterance-{number}"], extra={"classes": np.asarray(y)})

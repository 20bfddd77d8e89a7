"""RETURNN's own PyTorch engine from the package `returnn`: its data sets, chunking, batching, updater and loop."""

import logging
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from torch.nn.functional import cross_entropy

from asr_ablations.tools.machine import device_clock
from asr_benchmarks.toolkit.network import About, CountedEpoch, Frames, Network, Settings

if TYPE_CHECKING:
    from returnn.tensor import TensorDict

    pass


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


LOG = "returnn.log"
"""RETURNN's output, in the folder of the data."""


class Returnn:
    """An engine. loader_processes: those of RETURNN's data loader; 0 reads in the training process, as the other
    engines do.
    """

    requires = ("returnn", "tree", "h5py")  # returnn imports the latter two without requiring them

    def __init__(self, folder: str, settings: Settings, config: str, *, loader_processes: int) -> None:
        from returnn import __main__ as program

        self.frames, self.settings = Frames(Path(folder), settings), settings
        data = Path(folder) / "train.hdf"
        if not data.exists():
            write_hdf(self.frames, data)
        # it warns of a missing GPU where none is wanted
        logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)
        self.log = (Path(folder) / LOG).open("w", buffering=1)
        with redirect_stdout(self.log):
            program.init(config_updates=options(settings, data, loader_processes))
            self.engine = program.engine
            self.engine.init_train_from_config(program.config, program.train_data)
        self.epochs = 0

    def epoch(self) -> CountedEpoch:
        """Train one epoch; frames, loss and steps are those that RETURNN counted."""
        self.epochs += 1
        number = self.epochs
        started = device_clock(self.settings.device)
        with redirect_stdout(self.log):
            self.engine.set_epoch(number)
            self.engine.init_train_epoch()
            self.engine.train_epoch()
        seconds = device_clock(self.settings.device) - started
        record = self.engine.learning_rate_control.epoch_data[number]
        return {
            "seconds": seconds,
            "frames": self._network.take_frames(),
            "loss": float(record.error["train_loss_ce"]),
            "steps": record.meta["epoch_num_train_steps"],
        }

    def error_rate(self) -> float:
        """Frame error rate on the held-out frames, in %."""
        from asr_benchmarks.toolkit.network import frame_error_rate

        return frame_error_rate(self._network.eval(), self.frames)

    @property
    def _network(self) -> "CountingNetwork":
        network: CountingNetwork = self.engine._pt_model  # RETURNN has no public name for it
        return network

    def about(self) -> About:
        """RETURNN's version, and the memory."""
        from importlib.metadata import version

        from asr_benchmarks.toolkit.network import device_memory

        return {"version": f"returnn {version('returnn')}", "memory": device_memory(self.settings.device)}


def options(settings: Settings, data: Path, loader_processes: int) -> dict[str, object]:
    """RETURNN's config for the settings. data: the file of write_hdf."""
    pass

    return {
        "backend": "torch",
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
        "torch_dataloader_opts": {"num_workers": loader_processes},
        "settings": settings,
        "get_model": get_model,
        "train_step": train_step,
        "optimizer": {"class": "SGD", "momentum": settings.momentum},
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

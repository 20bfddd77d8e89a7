"""Write and read checkpoints."""

import os
from pathlib import Path

import torch
from lightning_fabric.utilities.types import _PATH
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.plugins.io import TorchCheckpointIO

from asr_ablations.runs.layout import BEST
from asr_ablations.training.contracts import Checkpoint
from asr_verdicts.files import whole_file

FOR_TRAINING_ONLY = ("optimizer_states", "trained_weights", "averaging", "workers")
"""Checkpoint entries that only a resumed run needs. best.ckpt omits them: runs resume from last.ckpt."""


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes checkpoints under a temporary name until they are on disk. Reads only tensors and plain data.

    content: the checkpoint to resume from, read once because another process may replace the file.
    """

    content: Checkpoint | None = None

    def save_checkpoint(self, checkpoint: Checkpoint, path: _PATH, storage_options: object = None) -> None:
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.name == BEST:  # a third of the size, so training waits a third of the time
            checkpoint = {key: value for key, value in checkpoint.items() if key not in FOR_TRAINING_ONLY}
        with whole_file(target) as temporary, temporary.open("wb") as file:
            torch.save(checkpoint, file)
            file.flush()
            os.fsync(file.fileno())

    def load_checkpoint(self, path: _PATH, *_: object, **__: object) -> Checkpoint:
        """Load onto the CPU, so that no rank opens the first GPU; each rank moves its part to its device."""
        content, self.content = self.content, None
        return content or super().load_checkpoint(path, weights_only=True)


def best_checkpoint(folder: Path, validation_set: str, figure: str) -> ModelCheckpoint:
    """Keep `folder`/best.ckpt of the epoch with the lowest `figure` (of metrics_files.FIGURES) on a validation set."""
    return ModelCheckpoint(
        dirpath=folder,
        filename=BEST.removesuffix(".ckpt"),
        monitor=f"validation/{validation_set}/{figure}",
        enable_version_counter=False,
    )

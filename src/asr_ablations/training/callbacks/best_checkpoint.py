"""The checkpoint of the epoch that was best on validation."""

from pathlib import Path

from pytorch_lightning.callbacks import ModelCheckpoint

from asr_ablations.runs.layout import BEST


def best_checkpoint(folder: Path, validation_set: str, figure: str) -> ModelCheckpoint:
    """A callback that keeps `folder`/best.ckpt: after the epoch with the lowest figure, one of runs.metrics.FIGURES, of
    a set.
    """
    return ModelCheckpoint(
        dirpath=folder,
        filename=BEST.removesuffix(".ckpt"),
        monitor=f"validation/{validation_set}/{figure}",
        enable_version_counter=False,
    )

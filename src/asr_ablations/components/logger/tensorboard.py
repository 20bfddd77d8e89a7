"""TensorBoard event files in the run folder."""

from pytorch_lightning.loggers import TensorBoardLogger

from asr_ablations.runs.folder import Run
from asr_ablations.tools.extras import require

require("tensorboard", "logger=tensorboard", "tensorboard")  # here, so that a run is refused before it begins


def tensorboard_logger(run: Run) -> TensorBoardLogger:
    """A logger whose files are displayed by: tensorboard --logdir outputs"""
    return TensorBoardLogger(save_dir=run.folder, name="", version="tensorboard")

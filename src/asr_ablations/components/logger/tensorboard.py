"""TensorBoard event files in the run folder."""

from pytorch_lightning.loggers import TensorBoardLogger

from asr_ablations.runs.folder import Run


def tensorboard_logger(run: Run) -> TensorBoardLogger:
    """A logger whose files are displayed by: tensorboard --logdir outputs"""
    return TensorBoardLogger(save_dir=run.folder, name="", version="tensorboard")

"""TensorBoard event files in the run folder."""

import sys
from collections.abc import Mapping
from types import ModuleType

from pytorch_lightning.loggers import TensorBoardLogger

from asr_ablations.runs.folder import Run
from asr_ablations.tools.errors import require

require("tensorboard", "logger=tensorboard", "tensorboard")  # checked at import, before the run begins


class TensorBoardRunLogger(TensorBoardLogger):
    """Logs summary values as text, because TensorBoard shows numbers only as curves."""

    def log_summary(self, values: Mapping[str, float | str]) -> None:
        for name, value in values.items():
            self.experiment.add_text(name, str(value))


def tensorboard_logger(run: Run) -> TensorBoardLogger:
    """Build a logger that writes to the run folder. `tensorboard --logdir outputs` displays its files."""
    # an empty module keeps TensorBoard from importing TensorFlow, which takes seconds and prints warnings
    sys.modules.setdefault("tensorboard.compat.notf", ModuleType("tensorboard.compat.notf"))
    return TensorBoardRunLogger(save_dir=run.folder, name="", version="tensorboard")

"""A frozen config in a fresh process, by the code of any checkout."""

import os
from pathlib import Path

from omegaconf import DictConfig

from asr_ablations.runs.process import command, load_frozen, wait_for
from asr_ablations.runs.status import status_of
from asr_ablations.tools.signals import STOPPED_EXIT_CODES, STOPPING
from asr_verdicts.config import ranks
from asr_verdicts.errors import UsageError


class RunFailedError(Exception):
    """A run that finished before did not finish this time. exit_code: for the command that started it."""

    def __init__(self, reason: str, exit_code: int) -> None:
        self.exit_code = exit_code
        super().__init__(reason)


def make_absolute(cfg: DictConfig) -> None:
    """Make data.root and weights absolute: the run starts in another folder. A root of null stands for this folder."""
    if cfg.get("weights"):
        cfg.weights = str(Path(cfg.weights).absolute())
    data = cfg.get("data")
    if isinstance(data, DictConfig) and "root" in data:
        data.root = str(Path(data.root or ".").absolute())


def run_frozen(source: Path, config: Path, threads: int | None) -> int:
    """Run a frozen config and return the exit code. source: the folder of the checkout whose code runs."""
    cfg = load_frozen(config)
    path = os.pathsep.join(filter(None, [str(source / "src"), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path}
    if threads is not None and "threads" not in cfg:  # code from before that key
        environment["OMP_NUM_THREADS"] = str(threads)
    line = command(source / "src" / "train.py", config.absolute(), ranks(cfg))
    # not in the user's folder: if that is a src/, Python would import from there
    return wait_for(line, environment, source)


def refuse_failure(exit_code: int, folder: Path | None) -> None:
    """Raises KeyboardInterrupt for a run that was interrupted and can continue, UsageError for one that was refused,
    and RunFailedError for one that failed. folder: the run's, where it is known.
    """
    if not exit_code:
        return
    if exit_code in STOPPED_EXIT_CODES or -exit_code in STOPPING:
        raise KeyboardInterrupt
    if exit_code == 2:
        raise UsageError("the run was refused (above); --checkout runs the recorded code")
    status = status_of(folder) if folder else None
    reason = (status and status.reason) or f"exit code {exit_code}"
    raise RunFailedError(f"the run did not finish this time: {reason}", 1)

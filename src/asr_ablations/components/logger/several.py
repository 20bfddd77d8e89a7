"""Several loggers at once, as with logger=[wandb,tensorboard]."""

from functools import partialmethod
from typing import Any

from pytorch_lightning.loggers import Logger

from asr_ablations.runs.folder import Run
from asr_ablations.training.contracts import LoggerFactory


class SeveralLoggers(Logger):
    """Forwards every call to all loggers that support it."""

    def __init__(self, loggers: list[Logger]) -> None:
        super().__init__()
        self.loggers = loggers

    @property
    def name(self) -> str | None:
        return self.loggers[0].name

    @property
    def version(self) -> int | str | None:
        return self.loggers[0].version

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        for logger in self.loggers:
            logger.log_metrics(dict(metrics), step)  # a copy, because some loggers change the dict

    def _call_each(self, method: str, *arguments: Any, **options: Any) -> None:
        for logger in self.loggers:
            if hasattr(logger, method):
                getattr(logger, method)(*arguments, **options)

    log_hyperparams = partialmethod(_call_each, "log_hyperparams")
    log_table = partialmethod(_call_each, "log_table")
    log_summary = partialmethod(_call_each, "log_summary")
    save = partialmethod(_call_each, "save")
    finalize = partialmethod(_call_each, "finalize")
    finish = partialmethod(_call_each, "finish")


def several_loggers(run: Run, *, loggers: dict[str, LoggerFactory]) -> Logger | None:
    """Combine several loggers into one. Returns None if no factory builds a logger."""
    built = [logger for factory in loggers.values() if (logger := factory(run)) is not None]
    return SeveralLoggers(built) if built else None

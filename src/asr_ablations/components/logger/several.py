"""Several loggers at once: logger=[wandb,tensorboard]."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from pytorch_lightning.loggers import Logger

from asr_ablations.runs.folder import Run
from asr_ablations.training.contracts import (
    LoggerFactory,
    LoggerOfTables,
    LoggerWithExitCode,
    LoggerWithSummary,
    Recording,
)


class SeveralLoggers(Logger):
    """Passes every call to each logger that supports it."""

    def __init__(self, loggers: list[Logger]) -> None:
        super().__init__()
        self.loggers = loggers

    @property
    def name(self) -> str | None:
        return self.loggers[0].name

    @property
    def version(self) -> int | str | None:
        return self.loggers[0].version

    def log_hyperparams(self, params: dict[str, Any] | Namespace, *args: Any, **kwargs: Any) -> None:
        for logger in self.loggers:
            logger.log_hyperparams(params, *args, **kwargs)

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        for logger in self.loggers:
            logger.log_metrics(dict(metrics), step)  # some loggers change it in place

    def log_table(
        self,
        key: str,
        columns: list[str],
        data: list[list[str]],
        *,
        step: int | None = None,
        recordings: Sequence[Recording] = (),
    ) -> None:
        for logger in self.loggers:
            if isinstance(logger, LoggerOfTables):
                logger.log_table(key, columns, data, step=step, recordings=recordings)

    def log_summary(self, values: Mapping[str, float | str]) -> None:
        for logger in self.loggers:
            if isinstance(logger, LoggerWithSummary):
                logger.log_summary(values)

    def save(self) -> None:
        for logger in self.loggers:
            logger.save()

    def finalize(self, status: str) -> None:
        for logger in self.loggers:
            logger.finalize(status)

    def finish(self, exit_code: int) -> None:
        for logger in self.loggers:
            if isinstance(logger, LoggerWithExitCode):
                logger.finish(exit_code)


def several_loggers(run: Run, *, loggers: dict[str, LoggerFactory]) -> Logger | None:
    """Build one logger from several; None if none of them logs outside the run folder's metrics.csv."""
    built = [logger for factory in loggers.values() if (logger := factory(run)) is not None]
    return SeveralLoggers(built) if built else None

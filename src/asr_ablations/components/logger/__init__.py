"""Loggers beside the tables of the run folder. Contract: LoggerFactory; a logger may also be a LoggerOfTables, a
LoggerWithSummary or a LoggerWithExitCode.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # report and compare read `wandb_mode` without torch and Lightning
    from asr_ablations.training.contracts import LoggerFactory, LoggerOfTables, LoggerWithExitCode, LoggerWithSummary

__all__ = ["LoggerFactory", "LoggerOfTables", "LoggerWithExitCode", "LoggerWithSummary"]

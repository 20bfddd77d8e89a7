"""Loggers beside the tables of the run folder. Contract: LoggerFactory."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # report and compare read `wandb.mode` without torch and Lightning
    from asr_ablations.training.contracts import LoggerFactory

__all__ = ["LoggerFactory"]

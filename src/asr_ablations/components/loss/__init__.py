"""Losses. Contract: Loss."""

from asr_ablations.training.contracts import Loss

__all__ = ["Loss"]

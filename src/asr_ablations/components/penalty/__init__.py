"""Penalties of the weights. Contract: Penalty."""

from asr_ablations.training.contracts import Penalty

__all__ = ["Penalty"]

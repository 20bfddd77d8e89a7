"""Shortened runs that find mistakes. Contract: Debugging."""

from asr_ablations.training.contracts import Debugging

__all__ = ["Debugging"]

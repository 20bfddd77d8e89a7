"""Acoustic models. Contract: AcousticModel."""

from asr_ablations.training.contracts import AcousticModel

__all__ = ["AcousticModel"]

"""Acoustic models. Contract: AcousticModel; pretrain=layers needs a GrowingModel."""

from asr_ablations.training.contracts import AcousticModel, GrowingModel

__all__ = ["AcousticModel", "GrowingModel"]

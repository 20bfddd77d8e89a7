"""Pretraining of a part of the model. Contract: Pretraining."""

from asr_ablations.training.contracts import Pretraining

__all__ = ["Pretraining"]

"""Treatments of the gradient. Contract: GradientTreatment."""

from asr_ablations.training.contracts import GradientTreatment

__all__ = ["GradientTreatment"]

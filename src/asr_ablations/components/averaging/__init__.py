"""Averaged weights beside the trained ones. Contract: WeightAveraging."""

from asr_ablations.training.contracts import WeightAveraging

__all__ = ["WeightAveraging"]

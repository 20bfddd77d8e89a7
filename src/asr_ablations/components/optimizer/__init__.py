"""Optimizers, all of them torch's own. Contract: OptimizerFactory."""

from asr_ablations.training.contracts import OptimizerFactory

__all__ = ["OptimizerFactory"]

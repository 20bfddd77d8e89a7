"""How several ranks train together. Contract: ParallelTraining."""

from asr_ablations.training.contracts import ParallelTraining

__all__ = ["ParallelTraining"]

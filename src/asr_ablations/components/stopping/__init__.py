"""Rules that end a training before max_epochs. Contract: Stopping."""

from asr_ablations.training.contracts import Stopping

__all__ = ["Stopping"]

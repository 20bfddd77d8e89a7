"""Rules that end a run which does worse than others. Contract: PruningFactory."""

from asr_ablations.training.contracts import PruningFactory

__all__ = ["PruningFactory"]

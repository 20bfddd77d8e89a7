"""Features of waveforms. Contract: Features."""

from asr_ablations.training.contracts import Features

__all__ = ["Features"]

"""Initialisations of the weights. Contract: Initialisation."""

from asr_ablations.training.contracts import Initialisation

__all__ = ["Initialisation"]

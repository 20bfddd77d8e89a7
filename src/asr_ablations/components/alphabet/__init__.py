"""The characters that a model writes. Contract: AlphabetFactory."""

from asr_ablations.data.batch import AlphabetFactory

__all__ = ["AlphabetFactory"]

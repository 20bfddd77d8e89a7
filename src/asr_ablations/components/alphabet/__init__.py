"""The characters that a model writes. Contract: AlphabetFactory."""

from asr_ablations.data.contracts import AlphabetFactory

__all__ = ["AlphabetFactory"]

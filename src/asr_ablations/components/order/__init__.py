"""Orders of utterances and batches. Contract: Order."""

from asr_ablations.data.sampler import Order

__all__ = ["Order"]

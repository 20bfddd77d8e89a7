"""Orders of utterances and batches. Contract: Order."""

from asr_ablations.data.batch_order import Order

__all__ = ["Order"]

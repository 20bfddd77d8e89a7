"""A run on a few batches of every set, to check that it gets from its first step to its results."""

from asr_ablations.tools.checks import whole
from asr_ablations.training.contracts import Debugging


class Fast(Debugging):
    """Shortens every set to the utterances of `batches` batches. Raises UsageError if `batches` is below 1."""

    def __init__(self, *, batches: int) -> None:
        self.batches = whole("debug.batches", batches, 1)

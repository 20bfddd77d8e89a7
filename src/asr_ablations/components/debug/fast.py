"""A few batches of every set: does a run get from its first step to its table?"""

from asr_ablations.tools.checks import whole
from asr_ablations.training.contracts import Debugging


class Fast(Debugging):
    """Shortens every set to the utterances of `batches` batches. Raises UsageError for fewer than one."""

    def __init__(self, *, batches: int) -> None:
        self.batches = whole("debug.batches", batches, 1)

"""A debugging run on a few batches of each set, which checks every stage from the first step to the results."""

from asr_ablations.tools.checks import whole
from asr_ablations.training.contracts import Debugging


class Fast(Debugging):
    """Limits each set to as many utterances as `batches` batches hold. Raises UsageError if `batches` is below 1."""

    def __init__(self, *, batches: int) -> None:
        self.batches = whole("debug.batches", batches, 1)

"""No early stopping."""

from asr_ablations.training.contracts import Stopping


class NoStopping(Stopping):
    """Trains for max_epochs."""

"""No averaging."""

from asr_ablations.training.contracts import WeightAveraging


class NoAveraging(WeightAveraging):
    """Leaves the weights as they are trained."""

"""Whether an implementation computes what the reference does."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from asr_benchmarks.lstm.configuration import Configuration, draw_batch, draw_weights
from asr_benchmarks.lstm.reference import reference
from asr_benchmarks.worker import Worker

LARGEST = 1e-4
"""The largest allowed difference of the logits, and of the loss per nat of it."""

LEARNING = 1.0
"""The largest allowed difference, in %, of the amount by which one step lowers the loss."""


@dataclass(frozen=True)
class Agreement:
    """logits: largest difference over valid frames; loss: its difference; decrease: that of the loss in one step."""

    logits: float
    loss: float
    decrease: float


class Expected:
    """What the reference computes from the weights and the batch of a configuration."""

    def __init__(self, configuration: Configuration, seed: int) -> None:
        batch = draw_batch(configuration, seed)
        self.logits, self.loss = reference(configuration, draw_weights(configuration, seed), batch)
        self.valid = np.ones(self.logits.shape[:-1], bool)
        if configuration.loss == "ctc":
            self.valid = np.arange(batch.x.shape[1]) < batch.lengths[:, None]

    def agreement(self, worker: Worker) -> Agreement:
        """How a Training, in its process, agrees with the reference. It takes two steps."""
        outputs = worker.call("outputs")
        same = outputs.shape == self.logits.shape
        logits = float(np.abs(outputs - self.logits)[self.valid].max()) if same else float("inf")
        before, after = (worker.call("step")[1] for _ in range(2))
        return Agreement(logits, abs(before - self.loss), before - after)


def refused(agreements: Mapping[str, Agreement], loss: float) -> dict[str, str]:
    """The implementations that compute other numbers, and why. loss: that of the reference. The first step is compared
    with the median of all implementations, since the reference makes none.
    """
    allowed = LARGEST * max(1.0, abs(loss))
    reasons = {
        name: f"logits differ by {agreement.logits:.2g}, the loss of {loss:.4g} by {agreement.loss:.2g}"
        for name, agreement in agreements.items()
        if not (agreement.logits <= LARGEST and agreement.loss <= allowed)  # a NaN is not smaller either
    }
    others = {name: agreement.decrease for name, agreement in agreements.items() if name not in reasons}
    usual = statistics.median(others.values()) if others else 0.0
    return reasons | {
        name: f"its first step lowers the loss by {decrease:.4g}, the median by {usual:.4g}"
        for name, decrease in others.items()
        if not abs(decrease - usual) <= LEARNING / 100 * abs(usual) + allowed
    }

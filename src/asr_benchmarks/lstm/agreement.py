"""Whether an implementation computes what the reference does."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from asr_benchmarks.lstm.configuration import Configuration, draw_batch, draw_weights
from asr_benchmarks.lstm.reference import reference
from asr_benchmarks.worker import Worker

LARGEST = 1e-4
"""By how much logits may differ, and losses for each nat."""

LEARNING = 1.0
"""%: by how much what the loss lost in one step may differ."""


@dataclass(frozen=True)
class Agreement:
    """Largest difference of the logits of valid frames, difference of the loss, and what it lost in the first step."""

    logits: float
    loss: float
    lost: float


class Expected:
    """What the reference computes of one configuration's weights and batch."""

    def __init__(self, configuration: Configuration, seed: int) -> None:
        batch = draw_batch(configuration, seed)
        self.logits, self.loss = reference(configuration, draw_weights(configuration, seed), batch)
        self.valid: Any = ...
        if configuration.loss == "ctc":
            self.valid = np.arange(batch.x.shape[1]) < batch.lengths[:, None]

    def agreement(self, worker: Worker) -> Agreement:
        """Of a Training in its process, which takes two steps."""
        outputs = worker.call("outputs")
        same = outputs.shape == self.logits.shape
        logits = float(np.abs(outputs - self.logits)[self.valid].max()) if same else float("inf")
        before, after = (worker.call("step")[1] for _ in range(2))
        return Agreement(logits, abs(before - self.loss), before - after)


def refused(found: Mapping[str, Agreement], loss: float) -> dict[str, str]:
    """Those that compute something else, and why. loss: the reference's. Of the first step the median is taken for
    right.
    """
    allowed = LARGEST * max(1.0, abs(loss))
    reasons = {
        name: f"logits differ by {one.logits:.2g}, the loss of {loss:.4g} by {one.loss:.2g}"
        for name, one in found.items()
        if not (one.logits <= LARGEST and one.loss <= allowed)  # what is not a number is not smaller either
    }
    others = {name: one.lost for name, one in found.items() if name not in reasons}
    usual = statistics.median(others.values()) if others else 0.0
    return reasons | {
        name: f"its first step takes {lost:.4g} off the loss, the median {usual:.4g}"
        for name, lost in others.items()
        if not abs(lost - usual) <= LEARNING / 100 * abs(usual) + allowed
    }

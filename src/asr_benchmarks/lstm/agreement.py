"""Agreement of an implementation with the reference."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from asr_benchmarks.lstm.configuration import Batch, Configuration, Direction, Weights, draw_batch, draw_weights
from asr_benchmarks.worker import Worker


def reference(configuration: Configuration, weights: Weights, batch: Batch) -> tuple[np.ndarray, float]:
    """Logits, for CTC (B, T, V), for cross-entropy (B, V) after the last frame, and the loss: nats per label, the mean
    over utterances.
    """
    x = batch.x.astype(np.float64)
    for layer in weights.layers:
        outputs = [_lstm(layer[0], x)]
        if len(layer) == 2:
            outputs.append(_reversed(_lstm(layer[1], _reversed(x, batch.lengths)), batch.lengths))
        x = np.concatenate(outputs, axis=-1)
    logits = (x if configuration.loss == "ctc" else x[:, -1]) @ weights.output.T.astype(np.float64) + weights.bias
    nats = -_log_softmax(logits)
    if configuration.loss == "ce":
        return logits, float(np.take_along_axis(nats, batch.labels, axis=1).mean())
    losses = [_ctc(*utterance) for utterance in zip(nats, batch.lengths, batch.labels, strict=True)]
    return logits, float(np.mean(losses)) / configuration.labels


def _lstm(weights: Direction, x: np.ndarray) -> np.ndarray:
    inputs, recurrent, bias = (value.astype(np.float64) for value in weights)
    entering = x @ inputs.T + bias
    hidden = memory = np.zeros((len(x), recurrent.shape[1]))
    outputs = []
    for frame in range(x.shape[1]):
        enter, forget, candidate, leave = np.split(entering[:, frame] + hidden @ recurrent.T, 4, axis=1)
        memory = _sigmoid(forget) * memory + _sigmoid(enter) * np.tanh(candidate)
        hidden = _sigmoid(leave) * np.tanh(memory)
        outputs.append(hidden)
    return np.stack(outputs, axis=1)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _reversed(x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Each utterance reversed within its length; the padding stays where it is."""
    turned = x.copy()
    for row, length in enumerate(lengths):
        turned[row, :length] = x[row, :length][::-1]
    return turned


def _log_softmax(x: np.ndarray) -> np.ndarray:
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def _ctc(nats: np.ndarray, length: int, labels: np.ndarray) -> float:
    """The loss of one utterance in nats: Graves et al. 2006, equations 6 to 8, in logarithms."""
    symbols = np.zeros(2 * len(labels) + 1, dtype=int)
    symbols[1::2] = labels
    over = np.full(len(symbols), -np.inf)  # from two symbols before: not onto a blank, not past a repeated label
    over[3::2][labels[1:] != labels[:-1]] = 0
    log_alpha = np.full(len(symbols), -np.inf)
    log_alpha[:2] = -nats[0, symbols[:2]]
    for frame in nats[1:length]:
        last, before = (np.concatenate([np.full(n, -np.inf), log_alpha[:-n]]) for n in (1, 2))
        log_alpha = np.logaddexp(np.logaddexp(log_alpha, last), before + over) - frame[symbols]
    return -float(np.logaddexp(log_alpha[-1], log_alpha[-2]))


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
    """Results of the reference for the weights and the batch of a configuration."""

    def __init__(self, configuration: Configuration, seed: int) -> None:
        batch = draw_batch(configuration, seed)
        self.logits, self.loss = reference(configuration, draw_weights(configuration, seed), batch)
        self.valid = np.ones(self.logits.shape[:-1], bool)
        if configuration.loss == "ctc":
            self.valid = np.arange(batch.x.shape[1]) < batch.lengths[:, None]

    def agreement(self, worker: Worker) -> Agreement:
        """Compare a Training, in its process, with the reference over two steps."""
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

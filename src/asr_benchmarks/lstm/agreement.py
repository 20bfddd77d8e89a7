"""Compare the outputs and losses of each implementation with a reference in NumPy."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from asr_benchmarks.frameworks.network import LSTM, Network, Samples, draw_samples, draw_weights
from asr_benchmarks.worker import Worker

LARGEST = 1e-4
"""Largest allowed difference of logits, and largest allowed relative difference of the loss, from the reference."""

LEARNING = 1.0
"""Largest allowed deviation from the median, in %, of the amount by which the first step lowers the loss."""


@dataclass(frozen=True)
class Agreement:
    """Differences between an implementation and the reference.

    logits: largest difference of a logit in a valid frame. loss: difference of the loss. decrease: amount by which the
    first step lowers the loss.
    """

    logits: float
    loss: float
    decrease: float


class Expected:
    """The reference's logits and loss, for a network's initial weights and its batch."""

    def __init__(self, network: Network, seed: int) -> None:
        samples = draw_samples(network, network.batch, seed)
        self.logits, self.loss = compute_reference(network, draw_weights(network, seed), samples)
        self.valid = np.ones(self.logits.shape[:-1], bool)
        if network.loss == "ctc":
            self.valid = np.arange(network.shape[0]) < samples.lengths[:, None]

    def compare(self, worker: Worker) -> Agreement:
        """Compare a Trainer's outputs and loss with the reference. The Trainer in the worker trains two steps."""
        outputs = worker.call("outputs")
        same = outputs.shape == self.logits.shape
        logits = float(np.abs(outputs - self.logits)[self.valid].max()) if same else float("inf")
        before, after = (worker.call("step").loss for _ in range(2))
        return Agreement(logits, abs(before - self.loss), before - after)


def refuse_others(agreements: Mapping[str, Agreement], loss: float) -> dict[str, str]:
    """Return the names of implementations to exclude, each with a reason.

    An implementation is excluded if its logits or loss differ from the reference, or if its first step's loss decrease
    differs from the median over all implementations. loss: the reference's loss.
    """
    allowed = LARGEST * max(1.0, abs(loss))
    reasons = {
        name: f"logits differ by {agreement.logits:.2g}, the loss of {loss:.4g} by {agreement.loss:.2g}"
        for name, agreement in agreements.items()
        if not (agreement.logits <= LARGEST and agreement.loss <= allowed)  # also true for NaN
    }
    others = {name: agreement.decrease for name, agreement in agreements.items() if name not in reasons}
    usual = statistics.median(others.values()) if others else 0.0
    return reasons | {
        name: f"its first step lowers the loss by {decrease:.4g}, the median by {usual:.4g}"
        for name, decrease in others.items()
        if not abs(decrease - usual) <= LEARNING / 100 * abs(usual) + allowed
    }


def compute_reference(
    network: Network, weights: Mapping[str, np.ndarray], samples: Samples
) -> tuple[np.ndarray, float]:
    """Compute the logits, (B, T, V) for CTC and otherwise (B, V), and the mean loss in nats per label."""
    exact = {name: value.astype(np.float64) for name, value in weights.items()}
    x, outputs, lstm = samples.inputs.astype(np.float64), [], network.layers[0]
    assert isinstance(lstm, LSTM)
    for _, side, end in lstm.places():
        arrays = [exact[f"0.{kind}{end}"] for kind in ("kernel", "recurrent", "bias")]
        y = _run_lstm(_reverse(x, samples.lengths) if side else x, *arrays)
        outputs.append(_reverse(y, samples.lengths) if side else y)
        if len(outputs) == lstm.directions:
            x, outputs = np.concatenate(outputs, axis=-1), []
    place = len(network.layers) - 1
    logits = (x if network.loss == "ctc" else x[:, -1]) @ exact[f"{place}.kernel"] + exact[f"{place}.bias"]
    shifted = logits - logits.max(axis=-1, keepdims=True)
    nats = np.log(np.exp(shifted).sum(axis=-1, keepdims=True)) - shifted
    if network.loss == "ce":
        return logits, float(np.take_along_axis(nats, samples.targets[:, None], axis=1).mean())
    losses = [_ctc(*utterance) for utterance in zip(nats, samples.lengths, samples.targets, strict=True)]
    return logits, float(np.mean(losses)) / network.labels


def _run_lstm(x: np.ndarray, inputs: np.ndarray, recurrent: np.ndarray, bias: np.ndarray) -> np.ndarray:
    entering = x @ inputs + bias
    hidden = memory = np.zeros((len(x), len(recurrent)))
    sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    outputs = []
    for frame in range(x.shape[1]):
        enter, forget, candidate, leave = np.split(entering[:, frame] + hidden @ recurrent, 4, axis=1)
        memory = sigmoid(forget) * memory + sigmoid(enter) * np.tanh(candidate)
        hidden = sigmoid(leave) * np.tanh(memory)
        outputs.append(hidden)
    return np.stack(outputs, axis=1)


def _reverse(x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Reverse the frames of each utterance, and leave the padding at the end."""
    turned = x.copy()
    for row, length in enumerate(lengths):
        turned[row, :length] = x[row, :length][::-1]
    return turned


def _ctc(nats: np.ndarray, length: int, labels: np.ndarray) -> float:
    """Compute an utterance's CTC loss in nats, in log space (Graves et al. 2006, equations 6 to 8)."""
    symbols = np.zeros(2 * len(labels) + 1, dtype=int)
    symbols[1::2] = labels
    over = np.full(len(symbols), -np.inf)  # a path may skip a blank between different labels, but no other symbol
    over[3::2][labels[1:] != labels[:-1]] = 0
    log_alpha = np.full(len(symbols), -np.inf)
    log_alpha[:2] = -nats[0, symbols[:2]]
    for frame in nats[1:length]:
        last, before = (np.concatenate([np.full(n, -np.inf), log_alpha[:-n]]) for n in (1, 2))
        log_alpha = np.logaddexp(np.logaddexp(log_alpha, last), before + over) - frame[symbols]
    return -float(np.logaddexp(log_alpha[-1], log_alpha[-2]))

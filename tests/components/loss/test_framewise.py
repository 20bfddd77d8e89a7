"""Frame labels against a loop over frames, and the loss and its rate against those labels. CTC's tests are in
test_task.py.
"""

import itertools
import math

import pytest
import torch

from asr_ablations.components.loss.framewise import linear_alignment, separated
from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.batch import Batch
from tests.helpers.support import component

ALPHABET = Alphabet("abc ")
TEXTS = ["ab", "", "aab", "c", "abba cc", "aaaa"]
LENGTHS = torch.tensor([7, 4, 11, 1, 20, 7])


def batch(texts: list[str]) -> Batch:
    labels = [ALPHABET.encode(text) for text in texts]
    return Batch(
        audio=torch.zeros(0, dtype=torch.int16),
        lengths=torch.zeros(len(texts), dtype=torch.long),
        targets=torch.tensor(list(itertools.chain(*labels)), dtype=torch.long),
        target_lengths=torch.tensor([len(x) for x in labels]),
        ids=texts,
        texts=texts,
    )


def by_loop(text: str, frames: int) -> list[int]:
    """A blank between equal neighbours, then every frame by its share of the way."""
    path: list[int] = []
    for label in ALPHABET.encode(text):
        path += [0, label] if path and path[-1] == label else [label]
    path = path or [0]
    return [path[math.floor(t * len(path) / frames)] for t in range(frames)]


def test_labels_are_those_of_a_loop() -> None:
    result = linear_alignment(batch(TEXTS), LENGTHS, 20)
    assert result.shape == (6, 20)
    for row, text, length in zip(result, TEXTS, LENGTHS.tolist(), strict=True):
        assert row[:length].tolist() == by_loop(text, length)


def test_a_batch_without_labels_is_all_blank() -> None:
    assert linear_alignment(batch(["", ""]), torch.tensor([3, 0]), 3).tolist() == [[0] * 3] * 2


def one_hot(labels: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.one_hot(labels, ALPHABET.outputs).float().mul(20).log_softmax(dim=-1)


def test_what_is_learnt_is_read_back_by_a_decoder_for_ctc() -> None:
    """Wherever the transcript fits: the paths need 2, 1, 4, 1, 9 and 7 frames."""
    assert separated(batch(TEXTS))[1].tolist() == [2, 1, 4, 1, 9, 7]
    learnt = one_hot(linear_alignment(batch(TEXTS), LENGTHS, 20))
    assert component("decoder", "greedy")(ALPHABET)(learnt, LENGTHS) == TEXTS


def test_the_loss_is_the_mean_over_utterances_of_the_mean_over_their_frames() -> None:
    log_probs = torch.randn(6, 20, ALPHABET.outputs, generator=torch.Generator().manual_seed(1)).log_softmax(dim=-1)
    expected, wrong = [], 0
    for row, text, length in zip(log_probs, TEXTS, LENGTHS.tolist(), strict=True):
        labels = by_loop(text, length)
        expected.append(-sum(float(row[t, label]) for t, label in enumerate(labels)) / length)
        wrong += sum(int(row[t].argmax()) != label for t, label in enumerate(labels))
    loss = component("loss", "framewise")
    assert float(loss(log_probs, LENGTHS, batch(TEXTS))) == pytest.approx(sum(expected) / 6, rel=1e-5)
    assert float(loss.frame_rates(log_probs, LENGTHS, batch(TEXTS))["fer"]) == pytest.approx(wrong / 50)


def test_padding_has_no_gradient_and_no_frames_no_loss() -> None:
    log_probs = torch.randn(2, 6, ALPHABET.outputs).log_softmax(dim=-1).requires_grad_()
    loss = component("loss", "framewise")(log_probs, torch.tensor([4, 0]), batch(["ab", "c"]))
    loss.backward()
    assert log_probs.grad is not None
    assert log_probs.grad[0, :4].abs().sum() > 0
    assert log_probs.grad[0, 4:].abs().sum() + log_probs.grad[1].abs().sum() == 0


def test_a_perfect_model_makes_no_frame_error() -> None:
    learnt = one_hot(linear_alignment(batch(TEXTS), LENGTHS, 20))
    assert component("loss", "framewise").frame_rates(learnt, LENGTHS, batch(TEXTS))["fer"] == 0
    assert component("loss", "ctc").frame_rates(learnt, LENGTHS, batch(TEXTS)) == {}

"""The reductions of every loss, against each utterance's loss alone, and a batch's weight in a mean over batches."""

import math
from typing import Any

import pytest
import torch

from asr_ablations.data.batch import Batch
from asr_ablations.tools.errors import UsageError
from tests.helpers.support import component

TEXTS, FRAMES = ["ab", "", "aab", "b"], [7, 4, 11, 1]
LABELS = {"a": 1, "b": 2}
UNITS = {"ctc": ("label", [2, 1, 3, 1]), "framewise": ("frame", FRAMES)}
"""What an utterance's nats are divided by; an empty transcript counts as one label."""

every_loss = pytest.mark.parametrize("name", UNITS)


def batch(texts: list[str]) -> Batch:
    return Batch(
        audio=torch.zeros(0, dtype=torch.int16),
        lengths=torch.zeros(len(texts), dtype=torch.long),
        targets=torch.tensor([LABELS[letter] for text in texts for letter in text], dtype=torch.long),
        target_lengths=torch.tensor([len(text) for text in texts]),
        ids=texts,
        texts=texts,
    )


def log_probs() -> torch.Tensor:
    return torch.randn(4, 11, 3, generator=torch.Generator().manual_seed(0)).log_softmax(dim=-1)


def alone(loss: Any) -> list[float]:
    """Each utterance's nats, in a batch of its own and without padding."""
    return [
        loss(row[None, :frames], torch.tensor([frames]), batch([text])).item()
        for row, frames, text in zip(log_probs(), FRAMES, TEXTS, strict=True)
    ]


@every_loss
def test_each_reduction_is_what_it_is_called(name: str) -> None:
    unit, units = UNITS[name]
    nats = alone(component("loss", name, reduction="sum"))
    expected = {
        unit: sum(value / count for value, count in zip(nats, units, strict=True)) / 4,
        "utterance": sum(nats) / 4,
        "sum": sum(nats),
    }
    for reduction, value in expected.items():
        loss = component("loss", name, reduction=reduction)
        assert loss(log_probs(), torch.tensor(FRAMES), batch(TEXTS)).item() == pytest.approx(value, rel=1e-5)
        assert loss.weight(batch(TEXTS)) == (1 if reduction == "sum" else 4)


def test_an_utterances_nats_are_those_of_all_its_alignments() -> None:
    """One label in two frames of uniform probabilities: three of nine paths (Graves et al. 2006, equation 3)."""
    uniform = torch.full((1, 2, 3), -math.log(3))
    loss = component("loss", "ctc", reduction="utterance")
    assert loss(uniform, torch.tensor([2]), batch(["a"])).item() == pytest.approx(-math.log(3 / 9), rel=1e-6)


@every_loss
def test_a_wrong_reduction_is_refused_with_the_choices(name: str) -> None:
    with pytest.raises(UsageError, match=rf"loss\.reduction=mean: expected .*{UNITS[name][0]}"):
        component("loss", name, reduction="mean")

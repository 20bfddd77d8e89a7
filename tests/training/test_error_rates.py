"""The validation's error rates are exactly torchmetrics' own, whatever the texts and however they are batched."""

import random

import pytest
import torch
from torchmetrics.text import CharErrorRate, WordErrorRate

from asr_ablations.training.error_rates import CharacterErrors, CharacterErrorsOverLonger, WordErrors

PAIRS = ((WordErrors, WordErrorRate), (CharacterErrors, CharErrorRate))


def texts(generator: random.Random, count: int) -> list[str]:
    """Sentences of 0 to 8 words over few letters, so that many words agree by chance."""
    words = ["".join(generator.choices("ab é", k=generator.randint(1, 3))) for _ in range(12)]
    return [" ".join(generator.choices(words, k=generator.randint(0, 8))) for _ in range(count)]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_the_rates_are_torchmetrics_own(ours: type[WordErrors], theirs: type[WordErrorRate]) -> None:
    generator = random.Random(0)
    first, second = ours(), theirs()
    for epoch in range(3):
        for _ in range(20):
            size = generator.randint(1, 6)
            hypotheses, references = texts(generator, size), texts(generator, size)
            first.update(hypotheses, references)
            second.update(hypotheses, references)
            assert torch.equal(first.errors, second.errors)
            assert torch.equal(first.total, second.total)
        assert first.compute() == second.compute() > 0, f"epoch {epoch}"
        first.reset()
        second.reset()


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
@pytest.mark.parametrize(
    ("hypothesis", "reference"), [("a b", ""), ("", "a b"), ("", ""), ("a", "a"), (["a b", "c"], ["a c", "c d"])]
)
def test_empty_texts_and_single_ones(
    ours: type[WordErrors], theirs: type[WordErrorRate], hypothesis: str | list[str], reference: str | list[str]
) -> None:
    first, second = ours(), theirs()
    first.update(hypothesis, reference)
    second.update(hypothesis, reference)
    assert torch.equal(first.compute().nan_to_num(-1), second.compute().nan_to_num(-1))


def test_the_rate_over_the_longer_text() -> None:
    """Baunsgaard2020 §4.1.1, equation 3, by torchmetrics' own count of errors."""
    generator = random.Random(1)
    hypotheses, references = texts(generator, 50), texts(generator, 50)
    ours, theirs = CharacterErrorsOverLonger(), CharErrorRate()
    ours.update(hypotheses, references)
    theirs.update(hypotheses, references)
    longer = sum(max(len(h), len(r)) for h, r in zip(hypotheses, references, strict=True))
    assert float(ours.compute()) == pytest.approx(float(theirs.errors) / longer)
    assert longer > sum(map(len, references))


@pytest.mark.parametrize("metric", [WordErrors, CharacterErrors, CharacterErrorsOverLonger])
def test_a_text_without_a_reference_is_refused(metric: type[WordErrors]) -> None:
    with pytest.raises(ValueError, match="zip"):
        metric().update(["a", "b"], ["a"])

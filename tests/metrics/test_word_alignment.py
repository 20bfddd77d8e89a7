"""Alignments against the counts of metrics.error_counts, which come from another algorithm."""

import random

import pytest

from asr_ablations.metrics.error_counts import align, count_errors


@pytest.mark.parametrize("seed", range(200))
def test_an_alignment_spells_both_sides_and_has_the_counted_errors(seed: int) -> None:
    drawn = random.Random(seed)
    reference, hypothesis = (drawn.choices("abc", k=drawn.randrange(9)) for _ in range(2))
    pairs = align(reference, hypothesis)
    assert [r for r, _ in pairs if r is not None] == reference
    assert [h for _, h in pairs if h is not None] == hypothesis
    expected = count_errors(reference, hypothesis)
    both = [(r, h) for r, h in pairs if r is not None and h is not None]
    assert sum(r != h for r, h in both) == expected.substitutions
    assert sum(h is None for _, h in pairs) == expected.deletions
    assert sum(r is None for r, _ in pairs) == expected.insertions


def test_by_hand() -> None:
    expected = [("a", "a"), ("cab", None), ("had", "dad"), (None, "oh")]
    assert align(["a", "cab", "had"], ["a", "dad", "oh"]) in (expected, [("a", "a"), ("cab", "dad"), ("had", "oh")])

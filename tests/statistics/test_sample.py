"""A sample's rates and grain, and what does not fit."""

import re

import numpy as np
import pytest

from asr_ablations.statistics.sample import Sample

WORDS = np.array([4.0, 6.0])


def test_rates_and_grain_of_errors() -> None:
    sample = Sample.of_errors(np.array([[1.0, 2.0], [4.0, 6.0]]), WORDS, np.array(["a", "b"]))
    assert sample.rates.tolist() == [0.3, 1.0]  # the second run diverged: as many errors as words
    assert sample.grain == 0.1


def test_rates_without_utterances() -> None:
    assert Sample.of_rates(np.array([0.1]), total=200).grain == 0.005
    assert Sample.of_rates(np.array([0.1])).grain == 0
    assert Sample.of_errors(np.zeros((2, 0)), np.zeros(0)).rates.tolist() == [0, 0]


def test_without_speakers_every_utterance_is_one() -> None:
    units = Sample.of_errors(np.zeros((1, 2)), WORDS).units
    assert units is not None
    assert len(set(units)) == 2


def test_utterances_are_the_same_where_words_and_speakers_are() -> None:
    errors, speakers = np.zeros((1, 2)), np.array(["a", "b"])
    sample = Sample.of_errors(errors, WORDS, speakers)
    assert sample.has_utterances_of(Sample.of_errors(errors + 1, WORDS, speakers))
    assert not sample.has_utterances_of(Sample.of_errors(errors, WORDS + 1, speakers))
    assert not sample.has_utterances_of(Sample.of_errors(errors, WORDS, np.array(["a", "c"])))
    assert not sample.has_utterances_of(Sample.of_rates(np.array([0.1])))


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(ValueError, match="finite"):
        Sample.of_rates(np.array([0.1, np.nan]))
    with pytest.raises(ValueError, match=re.escape("shape (1, 3), expected (runs, utterances) = (1, 2)")):
        Sample.of_errors(np.zeros((1, 3)), WORDS)
    with pytest.raises(ValueError, match="1 speakers for 2 utterances"):
        Sample.of_errors(np.zeros((1, 2)), WORDS, np.array(["a"]))

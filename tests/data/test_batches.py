"""Batches: their order, their position in a resumed run, their shares of ranks."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from asr_ablations.data.alphabet import Letters
from asr_ablations.data.corpus import Corpus
from asr_ablations.data.datamodule import Item, SpeechData, collate
from asr_ablations.data.utterances import Utterance, Utterances
from asr_verdicts.errors import UsageError
from tests.helpers.support import component

LETTERS = Letters("abcdefgh ")


def utterance(id_: str, text: str, seconds: float = 1.0) -> Utterance:
    return Utterance(id_, "s", Path(f"{id_}.flac"), 0.0, seconds, text)


def items(lengths: list[int]) -> list[Item]:
    generator = np.random.default_rng(1)
    texts = ["ab", "", "cab", "a"]
    return [
        Item(generator.integers(-32768, 32767, n).astype(np.int16), n, LETTERS.encode_all([text])[0],
             utterance(f"u-{i}", text))
        for i, (n, text) in enumerate(zip(lengths, texts, strict=False))
    ]  # fmt: skip


def test_waveforms_are_padded_with_zeros_and_targets_concatenated() -> None:
    for lengths in ([5, 0, 9, 1], [1], [0, 0]):
        batch = collate(drawn := items(lengths))
        expected = np.zeros((len(lengths), max(lengths)), dtype=np.float32)
        for row, (samples, *_) in enumerate(drawn):
            expected[row, : len(samples)] = samples / 32768
        np.testing.assert_array_equal(batch.waveforms().numpy(), expected)
        assert batch.lengths.tolist() == lengths
    batch = collate(items([5, 0, 9, 1]))
    texts = [LETTERS.decode(part.tolist()) for part in batch.targets.split(batch.target_lengths.tolist())]
    assert texts == batch.texts == ["ab", "", "cab", "a"]
    assert batch.ids == ["u-0", "u-1", "u-2", "u-3"]
    assert len(batch) == 4
    for lengths, share in (([4, 4], 0.0), ([10, 0, 5, 5], 1 / 2)):
        assert collate(items(lengths)).padding() == pytest.approx(share), "the share of zeros added"
    assert 0 <= collate(items([0, 0])).padding() <= 1
    moved = collate(items([5, 2])).to(torch.device("meta"))
    assert [moved.audio.device.type, moved.targets.device.type] == ["meta", "meta"]
    assert [moved.lengths.tolist(), moved.target_lengths.tolist()] == [[5, 2], [2, 0]], "lengths stay on the CPU"


class Listed(Corpus):
    """A corpus whose splits are lists; train consists of two folders."""

    def __init__(self, splits: dict[str, list[Utterance]]) -> None:
        super().__init__(
            root=None, train=["one", "two"], validation=["dev"], test=["test"], language="en", max_seconds=None,
            max_evaluated_seconds=None, normalise="case", on_bad="stop",
        )  # fmt: skip
        self.splits = splits

    def prepare(self) -> None:
        pass

    def find(self, split: str) -> list[Utterance]:
        return self.splits.get(split, [])

    def read(self, split: str) -> Utterances:
        """Nothing is inspected: the files do not exist."""
        return Utterances.convert(self.find(split))


def data(frames: int, options: dict[str, Any] = {}, **splits: list[Utterance]) -> SpeechData:  # noqa: B006
    """With a model of `frames` output frames a second."""
    given = {
        "batch_count": 2, "batch_seconds": None, "seed": 0, "augment_seed": 0, "workers": 0,
        "cache": component("cache", "none"), "augment": component("augment", "none"), **options,
    }  # fmt: skip
    order = component("order", "shuffled")
    speech = SpeechData(Listed(splits), LETTERS, order, lambda samples: samples * frames // 16000, **given)
    speech.setup()
    return speech


ONE = [utterance("short", "abcdef", 0.5), utterance("enough", "abcde", 0.5)]
TWO = [utterance("repeats", "aaa", 0.4), utterance("fits", "aab", 0.4), utterance("brief", "a", 0.1)]


def test_a_test_set_in_validation_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """By its recordings, whatever its name: one of the two utterances of `test` is in `dev`."""
    with caplog.at_level(logging.WARNING):
        data(100, one=ONE, dev=TWO[:2], test=TWO[1:])
    assert caplog.messages[2:] == [  # behind what is said of the one speaker
        "1 of 2 utterances of test are also in a validation set, which steers training: "
        "error rates on this test set are too optimistic"
    ]


def test_evaluation_has_every_utterance_once_and_the_longest_first() -> None:
    """Seconds of a batch include its padding."""
    seconds = {"batch_count": None, "batch_seconds": 1.0}
    for options, expected in (({}, [[0.9, 0.7], [0.5, 0.3], [0.1]]), (seconds, [[0.9], [0.7], [0.5, 0.3], [0.1]])):
        durations = [0.3, 0.9, 0.1, 0.5, 0.7]
        speech = data(100, options, one=ONE, dev=[utterance(f"u-{d}", "a", d) for d in durations])
        batches = list(speech.evaluation_dataloader("dev").batch_sampler)
        assert [[durations[i] for i in batch] for batch in batches] == expected


def test_descriptions_distinguish_contents() -> None:
    """Hours, speakers, words, and a hash that any change of a set changes but not its order."""

    def described(*utterances: Utterance) -> dict[str, Any]:
        description: dict[str, Any] = data(100, one=ONE, dev=list(utterances)).describe()["sets"]["dev"]
        return description

    a, b = utterance("a", "ab cd", 1.5), utterance("b", "ab", 0.3)
    description = described(a, b)
    assert (description["utterances"], description["speakers"], description["words"]) == (2, 1, 3)
    assert description["hours"] == pytest.approx(1.8 / 3600)
    assert described(b, a)["sha256"] == description["sha256"]
    others = [a], [a, b], [a, utterance("b", "ac", 0.3)], [a, utterance("b", "ab", 0.4)]
    assert len({described(*other)["sha256"] for other in others}) == 4


def test_a_batch_that_cannot_hold_the_longest_utterance_is_refused() -> None:
    seconds = {"batch_count": None, "batch_seconds": 0.45}
    message = r"batch\.seconds=0\.45: expected 0\.5 or more, the duration of the longest utterance, enough"
    with pytest.raises(UsageError, match=message):
        data(100, seconds, one=ONE[1:], two=TWO)

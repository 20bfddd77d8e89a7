"""Batches: their order, their position in a resumed run, their shares of ranks, and the processes that read them."""

import gc
import logging
import os
import re
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from asr_ablations.config.build import build
from asr_ablations.data.alphabet import Letters
from asr_ablations.data.batch import Batch
from asr_ablations.data.corpus import Corpus
from asr_ablations.data.datamodule import Item, SpeechData, collate, read_ahead
from asr_ablations.data.utterances import Utterance, Utterances
from asr_ablations.training.assembly import assemble, trainer
from asr_verdicts.errors import UsageError
from tests.helpers.support import component, compose, tiny_overrides

LETTERS = Letters("abcdefgh ")


def utterance(id_: str, text: str, seconds: float = 1.0) -> Utterance:
    return Utterance(id_, "s", Path(f"{id_}.flac"), 0.0, seconds, text)


def test_waveforms_are_padded_with_zeros_and_targets_concatenated() -> None:
    def items(lengths: list[int]) -> list[Item]:
        generator = np.random.default_rng(1)
        texts = ["ab", "", "cab", "a"]
        return [
            Item(generator.integers(-32768, 32767, n).astype(np.int16), n, LETTERS.encode_all([text])[0],
                 utterance(f"u-{i}", text))
            for i, (n, text) in enumerate(zip(lengths, texts, strict=False))
        ]  # fmt: skip

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


def assembled(root: Path, *overrides: str) -> SpeechData:
    cfg = compose("width=8", "layers=1", "gpus=0", *tiny_overrides(root), "batch.size=2", *overrides)
    _, data = assemble(cfg, build(cfg.data))
    data.setup()
    return data


def epochs(data: SpeechData, begin: tuple[int, int] = (0, 0), last: int = 1) -> list[Batch]:
    data.load_state_dict({"epoch": begin[0], "batches": begin[1]})
    loader = data.train_dataloader()
    batches = []
    for epoch in range(begin[0], last + 1):
        loader.batch_sampler.set_epoch(epoch)
        batches += list(loader)
    return batches


def same(batches: Sequence[Batch], expected: Sequence[Batch]) -> bool:
    return [b.ids for b in batches] == [b.ids for b in expected] and all(
        torch.equal(getattr(a, name), getattr(b, name))
        for a, b in zip(batches, expected, strict=True)
        for name in ("audio", "lengths", "targets", "target_lengths")
    )


@pytest.mark.filterwarnings("ignore:This DataLoader will create 4 worker processes")  # more than cores here
def test_the_number_of_workers_changes_no_bit_and_resuming_none_either(tiny_corpus: Path) -> None:
    expected = epochs(assembled(tiny_corpus, "augment=speed"))
    for workers in (1, 4):
        assert same(epochs(assembled(tiny_corpus, "augment=speed", f"workers={workers}")), expected)
    for workers in (0, 1):
        resumed = epochs(assembled(tiny_corpus, "augment=speed", f"workers={workers}"), begin=(0, 3))
        assert same(resumed, expected[3:])
    assert not same(expected[:5], expected[5:])


@pytest.mark.parametrize("cache", ["pcm", "features"])
def test_a_cache_is_read_by_a_thread_with_the_same_batches(tiny_corpus: Path, tmp_path: Path, cache: str) -> None:
    options = (f"cache={cache}", f"cache.root={tmp_path}")
    expected = epochs(assembled(tiny_corpus, *options))
    data = assembled(tiny_corpus, *options, "workers=4")
    assert same(epochs(data), expected)
    assert cache == "features" or same(epochs(assembled(tiny_corpus)), expected), "the files' own samples"
    assert same(epochs(data, begin=(0, 3)), expected[3:])
    if cache == "features":
        batches = zip(epochs(data), expected, strict=True)
        assert all(torch.equal(a.features, b.features) for a, b in batches)  # type: ignore[arg-type]


def test_a_failure_comes_where_its_batch_would(tiny_corpus: Path) -> None:
    """The thread is two batches ahead: those before the one that fails are trained on."""

    def batches() -> Any:
        yield from ("a", "b")
        raise OSError("c")

    ahead = read_ahead(batches())
    assert [next(ahead), next(ahead)] == ["a", "b"]
    with pytest.raises(OSError, match="c"):
        next(ahead)


class Failing:
    """A store that cannot read one utterance, or whose process dies over it."""

    decodes = True

    def __init__(self, store: Any, id_: str, dies: bool) -> None:
        self.store, self.id, self.dies = store, id_, dies

    def read(self, utterance: Utterance) -> tuple[np.ndarray, int]:
        if utterance.id != self.id:
            return self.store.read(utterance)
        if self.dies:
            os.kill(os.getpid(), signal.SIGKILL)
        raise UsageError(f"cannot read audio {utterance.audio}: damaged")


# torch's handler of a worker's death raises wherever the process is, even before a socket is in the hands of its `with`
@pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("workers", "dies", "decodes"), [(0, False, True), (1, False, False), (2, True, True)])
def test_the_utterance_that_ends_a_run_is_named(tiny_corpus: Path, workers: int, dies: bool, decodes: bool) -> None:
    cfg = compose("width=8", "layers=1", "gpus=0", "max_epochs=1", *tiny_overrides(tiny_corpus), f"workers={workers}")
    task, data = assemble(cfg, build(cfg.data))
    data.setup()
    train = data.sets["train"]
    train.store = Failing(train.store, "11-1-0002", dies)
    train.store.decodes = decodes
    with pytest.raises(UsageError) as error:
        trainer(cfg, 0, [], []).fit(task, data)
    line = str(error.value)
    del error
    gc.collect()
    assert "\n" not in line
    assert len(line) < 250
    if dies:
        assert re.match(r"a process that was reading audio died: DataLoader worker \(pid", line)
    else:
        assert "utterance 11-1-0002" in line
        assert "11-1-0002.flac" in line

"""Batches: their order, their position in a resumed run, their shares of ranks."""

import json
import logging
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint

from asr_ablations.config.build import build
from asr_ablations.data.alphabet import Letters
from asr_ablations.data.corpus import Corpus
from asr_ablations.data.datamodule import Item, SpeechData, collate
from asr_ablations.data.utterances import Utterance, Utterances
from asr_ablations.training.assembly import assemble, trainer
from asr_verdicts.errors import UsageError
from tests.helpers.interpreter import expect, program
from tests.helpers.support import REPOSITORY, component, compose, tiny_overrides

LETTERS = Letters("abcdefgh ")


def utterance(id_: str, text: str, seconds: float = 1.0) -> Utterance:
    return Utterance(id_, "s", Path(f"{id_}.flac"), 0.0, seconds, text)


def items(lengths: list[int]) -> list[Item]:
    generator = np.random.default_rng(1)
    texts = ["ab", "", "cab", "a"]
    return [
        Item(
            generator.integers(-32768, 32767, n).astype(np.int16),
            n,
            LETTERS.encode_all([text])[0],
            utterance(f"u-{i}", text),
        )
        for i, (n, text) in enumerate(zip(lengths, texts, strict=False))
    ]


@pytest.mark.parametrize("lengths", [[5, 0, 9, 1], [4, 4], [1], [0], [0, 0]])
def test_waveforms_are_padded_with_zeros(lengths: list[int]) -> None:
    batch = collate(drawn := items(lengths))
    expected = np.zeros((len(lengths), max(lengths)), dtype=np.float32)
    for row, (samples, *_) in enumerate(drawn):
        expected[row, : len(samples)] = samples / 32768
    np.testing.assert_array_equal(batch.waveforms().numpy(), expected)
    assert batch.lengths.tolist() == lengths


def test_targets_are_concatenated() -> None:
    batch = collate(items([5, 0, 9, 1]))
    texts = [LETTERS.decode(part.tolist()) for part in batch.targets.split(batch.target_lengths.tolist())]
    assert texts == batch.texts == ["ab", "", "cab", "a"]
    assert batch.ids == ["u-0", "u-1", "u-2", "u-3"]
    assert len(batch) == 4


@pytest.mark.parametrize(
    ("lengths", "share"), [([4, 4], 0.0), ([4, 2], 1 / 4), ([10, 0, 5, 5], 1 / 2), ([0, 0], 0.0), ([3], 0.0)]
)
def test_padding_is_the_share_of_zeros_added(lengths: list[int], share: float) -> None:
    padding = collate(items(lengths)).padding()
    assert 0 <= padding <= 1
    if max(lengths):
        assert padding == pytest.approx(share)


def test_moving_keeps_the_lengths_on_the_cpu() -> None:
    moved = collate(items([5, 2])).to(torch.device("meta"))
    assert [moved.audio.device.type, moved.targets.device.type] == ["meta", "meta"]
    assert [moved.lengths.tolist(), moved.target_lengths.tolist()] == [[5, 2], [2, 0]]


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


def corpus(**splits: list[Utterance]) -> Corpus:
    return Listed(splits)


OPTIONS: dict[str, Any] = {
    "batch_count": 2, "batch_seconds": None, "seed": 0, "augment_seed": 0, "workers": 0,
    "cache": component("cache", "none"), "augment": component("augment", "none"),
}  # fmt: skip


def data(frames: int, options: dict[str, Any] = {}, **splits: list[Utterance]) -> SpeechData:  # noqa: B006
    """With a model of `frames` output frames a second."""

    def output_frames(samples: torch.Tensor) -> torch.Tensor:
        return samples * frames // 16000

    order = component("order", "shuffled")
    return SpeechData(corpus(**splits), LETTERS, order, output_frames, **{**OPTIONS, **options})


ONE = [utterance("short", "abcdef", 0.5), utterance("enough", "abcde", 0.5)]
TWO = [utterance("repeats", "aaa", 0.4), utterance("fits", "aab", 0.4), utterance("brief", "a", 0.1)]


def test_infeasible_utterances_are_left_out_of_training_and_named(caplog: pytest.LogCaptureFixture) -> None:
    """At 10 frames a second, 0.5 s are 5 frames, too few for 6 labels; aaa needs 5 frames and has 4."""
    speech = data(10, one=ONE, two=TWO, dev=[utterance("dev", "abcdefgh", 0.1)])
    with caplog.at_level(logging.WARNING):
        speech.setup()
    assert [u.id for u in speech.sets["train"].utterances] == ["enough", "fits", "brief"]
    assert speech.left_out == ["repeats", "short"]
    assert "2 of 5" in caplog.text
    assert "repeats, short" in caplog.text
    assert [u.id for u in speech.sets["dev"].utterances] == ["dev"], "evaluation leaves nothing out"


def test_a_test_set_in_validation_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """By its recordings, whatever its name: one of the two utterances of `test` is in `dev`."""
    speech = data(100, one=ONE, dev=TWO[:2], test=TWO[1:])
    with caplog.at_level(logging.WARNING):
        speech.setup()
    assert caplog.messages[2:] == [  # behind what is said of the one speaker
        "1 of 2 utterances of test are also in a validation set, which steers training: "
        "error rates on this test set are too optimistic"
    ]


def test_no_warning_where_all_fit(caplog: pytest.LogCaptureFixture) -> None:
    speech = data(100, one=ONE, two=TWO)
    speech.setup()
    assert speech.left_out == []
    assert caplog.text == ""


def test_no_utterance_left_is_an_error() -> None:
    with pytest.raises(UsageError, match="no training utterance is left"):
        data(1, one=ONE[:1], two=TWO[:1]).setup()


def test_foreign_characters_stop_the_setup() -> None:
    with pytest.raises(UsageError, match=r"dev-1: characters outside the alphabet: 'z'"):
        data(100, one=ONE, dev=[utterance("dev-1", "az")]).setup()


def test_evaluation_has_every_utterance_once_and_the_longest_first() -> None:
    durations = [0.3, 0.9, 0.1, 0.5, 0.7]
    speech = data(100, one=ONE, dev=[utterance(f"u-{d}", "a", d) for d in durations])
    speech.setup()
    batches = list(speech.evaluation_dataloader("dev").batch_sampler)
    assert [[durations[i] for i in batch] for batch in batches] == [[0.9, 0.7], [0.5, 0.3], [0.1]]


def test_descriptions_distinguish_contents() -> None:
    """Hours, speakers, words, and a hash that any change of a set changes but not its order."""

    def described(*utterances: Utterance) -> dict[str, Any]:
        speech = data(100, one=ONE, dev=list(utterances))
        speech.setup()
        description: dict[str, Any] = speech.describe()["sets"]["dev"]
        return description

    a, b = utterance("a", "ab cd", 1.5), utterance("b", "ab", 0.3)
    description = described(a, b)
    assert (description["utterances"], description["speakers"], description["words"]) == (2, 1, 3)
    assert description["hours"] == pytest.approx(1.8 / 3600)
    assert described(b, a)["sha256"] == description["sha256"]
    assert (
        len(
            {
                described(*u)["sha256"]
                for u in ([a], [a, b], [a, utterance("b", "ac", 0.3)], [a, utterance("b", "ab", 0.4)])
            }
        )
        == 4
    )


def test_a_batch_that_cannot_hold_the_longest_utterance_is_refused() -> None:
    seconds = {"batch_count": None, "batch_seconds": 0.45}
    message = r"batch\.seconds=0\.45: expected 0\.5 or more, the duration of the longest utterance, enough"
    with pytest.raises(UsageError, match=message):
        data(100, seconds, one=ONE[1:], two=TWO).setup()


def test_evaluation_batches_in_seconds_include_their_padding() -> None:
    durations = [0.3, 0.9, 0.1, 0.5, 0.7]
    seconds = {"batch_count": None, "batch_seconds": 1.0}
    speech = data(100, seconds, one=ONE, dev=[utterance(f"u-{d}", "a", d) for d in durations])
    speech.setup()
    batches = list(speech.evaluation_dataloader("dev").batch_sampler)
    assert [[durations[i] for i in batch] for batch in batches] == [[0.9], [0.7], [0.5, 0.3], [0.1]]


EPOCHS, BATCHES = 3, 5


@dataclass
class Story(pl.Callback):
    """What happened in a fit: (epoch, ids of a batch), (epoch, "validation"), (epoch, "end")."""

    stop_in: tuple[int, int] | None = None
    events: list[tuple[int, Any]] = field(default_factory=list)

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.events.append((trainer.current_epoch, batch_idx, tuple(batch.ids)))

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if (trainer.current_epoch, batch_idx) == self.stop_in:
            raise InterruptedError

    def on_validation_end(self, trainer, pl_module):
        self.events.append((trainer.current_epoch, "validation", trainer.global_step))

    def on_train_epoch_end(self, trainer, pl_module):
        self.events.append((trainer.current_epoch, "end", trainer.global_step))


def fit(root: Path, story: Story, *callbacks: Any, resume: Path | None = None, workers: int = 0) -> torch.Tensor:
    """The weights after training, or after the stop of the story."""
    small = ["width=8", "layers=1", "gpus=0", "norm=none", "dropout=0", "order=shuffled", f"max_epochs={EPOCHS}"]
    cfg = compose(*small, *tiny_overrides(root), "batch.size=2", f"workers={workers}")
    task, data = assemble(cfg, build(cfg.data))
    try:
        trainer(cfg, 0, [], [story, *callbacks]).fit(task, data, ckpt_path=resume and str(resume), weights_only=True)
    except InterruptedError:
        assert story.stop_in is not None
    return torch.cat([p.detach().flatten() for p in task.model.parameters()])


@pytest.fixture(scope="module")
def undisturbed(tiny_corpus: Path) -> tuple[Story, torch.Tensor]:
    story = Story()
    weights = fit(tiny_corpus, story)
    assert len(story.events) == EPOCHS * (BATCHES + 2)
    return story, weights


@pytest.mark.parametrize(
    ("every", "stop_in", "kept", "workers"),
    [
        (1, (0, 3), (0, 3), 0), (1, (1, 1), (1, 1), 1), (2, (2, 4), (2, 4), 1), (3, (1, 3), (1, 1), 0),
        (7, (2, 1), (1, 2), 1), (5, (1, 2), (1, 0), 1),
        ("validation", (1, 4), (0, BATCHES + 1), 0),  # its epoch has yet to end
        ("epoch", (2, 1), (2, 0), 1),
    ],
)  # fmt: skip
def test_a_resumed_run_sees_the_missing_batches_and_ends_with_the_same_weights(
    undisturbed: tuple[Story, torch.Tensor],
    tiny_corpus: Path,
    tmp_path: Path,
    every: int | str,
    stop_in: tuple[int, int],
    kept: tuple[int, int],
    workers: int,
) -> None:
    """`kept`: the epoch and the batch in it that the last checkpoint, one every `every` batches or after each
    validation or epoch, continues with."""
    whole, weights = undisturbed

    def saving() -> ModelCheckpoint:
        when = (
            {"every_n_train_steps": every} if isinstance(every, int) else {"save_on_train_epoch_end": every == "epoch"}
        )
        return ModelCheckpoint(tmp_path, filename="last", enable_version_counter=False, **when)

    first = Story(stop_in)
    fit(tiny_corpus, first, saving(), workers=workers)
    second = Story()
    resumed = fit(tiny_corpus, second, saving(), resume=tmp_path / "last.ckpt", workers=workers)
    before = kept[0] * (BATCHES + 2) + kept[1]
    assert first.events[:before] == whole.events[:before]
    assert second.events == whole.events[before:]
    assert torch.equal(resumed, weights)


@pytest.mark.slow
def test_two_ranks_see_disjoint_halves(tiny_corpus: Path, tmp_path: Path) -> None:
    """Ten utterances in batches of two a rank: two steps of four and one of two, one utterance for each rank."""
    script = REPOSITORY / "tests/helpers/rank_ids.py"
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)]
    paths = os.pathsep.join(str(REPOSITORY / name) for name in ("src", ""))
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    expect(0, program([*run, str(tiny_corpus), str(tmp_path), "1"], environment))
    ranks = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    for epoch in ("0", "1"):
        batches = [rank[epoch] for rank in ranks]
        assert sorted(map(len, batches[0])) == sorted(map(len, batches[1])) == [1, 2, 2]
        halves = [{id_ for batch in share for id_ in batch} for share in batches]
        assert not halves[0] & halves[1]
        assert len(halves[0] | halves[1]) == 10
    assert ranks[0]["0"] != ranks[0]["1"]

"""Reading processes: the same batches whatever their number, and a one-line error for what fails in one of them."""

import gc
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
from asr_ablations.data.batch import Batch
from asr_ablations.data.datamodule import SpeechData, read_ahead
from asr_ablations.data.utterances import Utterance
from asr_ablations.training.assembly import assemble, trainer
from asr_verdicts.errors import UsageError
from tests.helpers.support import compose, tiny_overrides


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

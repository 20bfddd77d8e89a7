"""Checkpoints, and transcripts of an epoch."""

import csv
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import pytorch_lightning as pl
import torch

from asr_ablations.experiment import fit as fitting
from asr_ablations.runs import reader
from asr_ablations.runs.folder import Run
from asr_ablations.runs.metrics_files import FIGURES
from asr_ablations.runs.reader import read_metrics
from asr_ablations.tools.errors import Stopped
from asr_ablations.training import checkpoints
from asr_ablations.training.callbacks.tables import evenly_spaced
from asr_ablations.training.checkpoints import AtomicCheckpointIO, read_last_checkpoint
from asr_ablations.training.trained_model import load_run
from asr_verdicts.errors import UsageError
from tests.helpers.run_results import SignalAt, results, same, train
from tests.helpers.support import compose, tiny_overrides

EPOCHS, BATCHES = 2, 3


def config(corpus: Path, outputs: Path, *more: str) -> Any:
    small = ["width=8", "layers=2", "gpus=0", "logger=csv", "order=shuffled", "augment=specaugment", "sweep=s"]
    return compose(*tiny_overrides(corpus), *small, f"outputs={outputs}", f"max_epochs={EPOCHS}", *more)


@pytest.fixture(scope="module")
def undisturbed(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = train(config(tiny_corpus, tmp_path_factory.mktemp("undisturbed")))
    assert len((folder / "losses.csv").read_text().splitlines()) == 1 + EPOCHS * BATCHES
    return results(folder)


@pytest.fixture(autouse=True)
def as_in_a_terminal() -> Iterator[None]:
    """The tests may be started under nohup, which ignores the signal."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def stop(cfg: Any, *callbacks: pl.Callback) -> None:
    """Train until a callback's signal stops the run."""
    usual = fitting.trainer

    def disturbed(*arguments: Any, **more: Any) -> pl.Trainer:
        return usual(*arguments[:-1], [*arguments[-1], *callbacks], **more)

    with mock.patch.object(fitting, "trainer", disturbed), pytest.raises(Stopped):
        train(cfg)


@pytest.mark.parametrize("moment", [(0, BATCHES - 1), (EPOCHS - 1, BATCHES - 1)], ids=str)
def test_a_stopped_run_goes_on_bit_for_bit(
    moment: tuple[int, int], undisturbed: dict[str, Any], tiny_corpus: Path, tmp_path: Path
) -> None:
    """Stopped at the end of an epoch, and after the last batch of all before the evaluation."""
    cfg = config(tiny_corpus, tmp_path)
    stop(cfg, SignalAt(*moment, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[sum(moment) % 3]))
    (folder,) = (path.parent for path in tmp_path.rglob("status.json"))
    torch.manual_seed(1)  # what this process drew meanwhile must not matter
    assert train(cfg) == folder
    assert json.loads((folder / "status.json").read_text())["status"] == "done"
    result = results(folder)
    assert [key for key in undisturbed if not same(result[key], undisturbed[key])] == []


def test_a_run_that_is_stopped_again_before_its_first_batch_goes_on_bit_for_bit(
    undisturbed: dict[str, Any], tiny_corpus: Path, tmp_path: Path
) -> None:
    """The second checkpoint is written before anything has been added to what the first one held."""

    class SignalAtStart(pl.Callback):
        def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
            os.kill(os.getpid(), signal.SIGTERM)

    cfg = config(tiny_corpus, tmp_path)
    stop(cfg, SignalAt(1, 0, signal.SIGTERM))
    stop(cfg, SignalAtStart())
    result = results(train(cfg))
    assert [key for key in undisturbed if not same(result[key], undisturbed[key])] == []


def test_a_run_continues_from_the_checkpoint_that_it_read_whatever_is_in_the_file_since(
    undisturbed: dict[str, Any], tiny_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that lost its lease may still write last.ckpt: weights and random state must be of the same one."""
    cfg, usual = config(tiny_corpus, tmp_path), fitting.trainer
    stop(cfg, SignalAt(1, 0, signal.SIGTERM))
    (path,) = tmp_path.rglob("last.ckpt")

    def replaced(*arguments: Any, **keywords: Any) -> pl.Trainer:
        path.write_bytes(b"by another process")
        return usual(*arguments, **keywords)

    monkeypatch.setattr(fitting, "trainer", replaced)
    result = results(train(cfg))
    assert [key for key in undisturbed if not same(result[key], undisturbed[key])] == []


def test_checksums_and_content_are_of_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A living run puts another last.ckpt in its place while it is read."""
    path, other = tmp_path / "last.ckpt", tmp_path / "other"
    for file, value in ((path, 1), (other, 2)):
        torch.save({"state_dict": {}, "value": value}, file)
    check = reader._check_sums

    def replaced(file: Any) -> None:
        check(file)
        other.replace(path)

    monkeypatch.setattr(reader, "_check_sums", replaced)
    assert reader.read_checkpoint(path)["value"] == 1


def test_the_best_checkpoint_is_of_the_epoch_with_the_lowest_figure(tiny_corpus: Path, tmp_path: Path) -> None:
    """And the best WER of the summary is the lowest WER, whatever the checkpoint follows."""
    folder = train(config(tiny_corpus, tmp_path, "best=cer", "max_epochs=3", "optimizer.lr=0.05"))
    rows = [row for row in read_metrics(folder) if row.get("validation/dev/loss") is not None]
    curves = {key: [row[f"validation/dev/{key}"] for row in rows] for key in FIGURES}
    best = torch.load(folder / "checkpoints" / "best.ckpt", weights_only=True)
    assert best["epoch"] == curves["cer"].index(min(curves["cer"]))
    assert "optimizer_states" not in best
    assert json.loads((folder / "summary.json").read_text())["best_validation_wer"] == min(curves["wer"])


def test_a_long_validation_is_left_at_once_for_the_checkpoint_before_it(
    tiny_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one: what the first took is known. The run goes on from the last batch, bit for bit."""
    monkeypatch.setattr(checkpoints, "LONG_VALIDATION", 0.0)
    seen: list[int] = []

    class SignalInValidation(pl.Callback):
        def on_validation_batch_start(self, trainer: pl.Trainer, *_: Any) -> None:
            seen.append(trainer.current_epoch)
            if seen[-1] == EPOCHS - 1:
                signal.raise_signal(signal.SIGTERM)

    cfg = config(tiny_corpus, tmp_path, "batch.size=3")  # the validation has two batches
    stop(cfg, SignalInValidation())
    assert seen.count(EPOCHS - 1) == 1, "the next batch is not validated"
    (path,) = tmp_path.rglob("last.ckpt")
    position = torch.load(path, weights_only=True)["position"]
    assert position["epoch"] == EPOCHS - 1
    assert position["batches"] > 0
    stopped = results(train(cfg))
    whole = results(train(config(tiny_corpus, tmp_path / "whole", "batch.size=3")))
    assert [key for key in whole if not same(stopped[key], whole[key])] == []


def test_several_ranks_save_before_a_first_validation_that_may_be_long(tmp_path: Path) -> None:
    for ranks, saves in ((1, False), (2, True)):
        trainer: Any = SimpleNamespace(
            world_size=ranks, is_last_batch=True, strategy=SimpleNamespace(broadcast=lambda decided: decided)
        )
        callback = checkpoints.LastCheckpoint(tmp_path, 30.0, SimpleNamespace(received=None), dict)  # type: ignore[arg-type]
        callback.setup(trainer, None, "fit")  # type: ignore[arg-type]
        assert callback._agreed(trainer, BATCHES) == (saves, None)


def test_a_finished_run_is_not_trained_again(tiny_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    cfg = config(tiny_corpus, tmp_path)
    folder = train(cfg)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert train(cfg) == folder
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    assert "done already" in capsys.readouterr().out
    anew = train(config(tiny_corpus, tmp_path, "force=true"))
    assert anew == folder
    kept = folder.with_name(f"{folder.name}.1")
    assert same(results(kept), results(folder))


def test_damaged_checkpoints_are_put_aside_and_the_run_starts_anew(
    undisturbed: dict[str, Any], tiny_corpus: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The best checkpoint is kept with the last."""
    cfg = config(tiny_corpus, tmp_path)
    path = train(cfg) / "checkpoints" / "last.ckpt"
    best = path.with_name("best.ckpt").read_bytes()
    path.write_bytes(path.read_bytes()[:1000])
    (path.parents[1] / "status.json").write_text(json.dumps({"status": "running"}))
    train(cfg)
    kept = path.parents[1] / "checkpoints.1"
    assert str(kept) in caplog.text
    assert (kept / "last.ckpt").stat().st_size == 1000
    assert (kept / "best.ckpt").read_bytes() == best
    assert same(results(path.parents[1]), undisturbed)


def test_from_what_is_no_checkpoint_of_this_run_it_does_not_continue(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record = Run(compose(f"outputs={tmp_path}", "data=an4", "data.root=/somewhere"))
    run = {"id": record.id, "rows": 3}
    content = {"state_dict": {}, "position": {"epoch": 1, "batches": 2}, "ranks": [{}], "run": run}
    for number, (changed, message) in enumerate((
        (content, None), ({"position": None}, "lacks position"), ({"run": None}, "lacks run"),
        ({"run": {**run, "id": "00000000"}}, "it belongs to the run 00000000"),
    )):  # fmt: skip
        record.checkpoints.mkdir(parents=True, exist_ok=True)
        written = {key: value for key, value in {**content, **changed}.items() if value is not None}
        torch.save(written, record.checkpoints / "last.ckpt")
        assert read_last_checkpoint(record) == (None if message else content)
        assert not message or message in caplog.text
        assert (record.folder / f"checkpoints.{number}" / "last.ckpt").exists() == bool(message)


def test_a_checkpoint_that_cannot_be_read_now_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lack of rights or memory, or a failing disk, is no damage: a second start may read it."""
    record = Run(compose(f"outputs={tmp_path}", "data=an4", "data.root=/somewhere"))
    record.checkpoints.mkdir(parents=True)
    path = record.checkpoints / "last.ckpt"
    path.write_bytes(b"weeks of training")
    for error, message in (
        (PermissionError(13, "Permission denied", "last.ckpt"), "Permission denied"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), "out of memory"),
    ):
        monkeypatch.setattr(torch, "load", mock.Mock(side_effect=error))
        with pytest.raises(UsageError, match=message):
            read_last_checkpoint(record)
        assert path.read_bytes() == b"weeks of training"
        assert [entry.name for entry in record.folder.iterdir()] == ["checkpoints"]


def test_a_checkpoint_that_is_there_is_whole_and_that_of_a_gpu_read_onto_the_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not onto the GPU that it was saved from, which another rank trains on, or this machine does not have."""
    path = tmp_path / "last.ckpt"
    with monkeypatch.context() as patched:
        patched.setattr("torch.serialization.location_tag", lambda storage: "cuda:0")
        AtomicCheckpointIO().save_checkpoint({"a": torch.ones(2)}, path)
    assert b"cuda:0" in path.read_bytes()
    content = AtomicCheckpointIO().load_checkpoint(path)
    assert content["a"].device.type == "cpu"
    assert content["a"].tolist() == [1, 1]
    AtomicCheckpointIO().save_checkpoint({"a": 1}, path)

    def fail(content: Any, file: Any) -> None:
        file.write(b"half")
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(torch, "save", fail)
        with pytest.raises(OSError, match="no space"):
            AtomicCheckpointIO().save_checkpoint({"a": 2}, path)
    assert AtomicCheckpointIO().load_checkpoint(path) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["last.ckpt"]


def test_the_random_state_of_a_gpu_is_left_alone_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    states: list[torch.Tensor] = []
    monkeypatch.setattr(torch.cuda, "set_rng_state", states.append)
    own = {"cpu": torch.Generator().manual_seed(5).get_state(), "cuda": torch.zeros(16, dtype=torch.uint8)}
    restored = checkpoints.RestoreState({"ranks": [{"random": own, "means": {}, "sums": {}}]})
    trainer: Any = SimpleNamespace(strategy=SimpleNamespace(root_device=torch.device("cpu")))
    task: Any = SimpleNamespace()
    with torch.random.fork_rng(devices=[]):
        restored.on_train_start(trainer, task)
        assert torch.equal(torch.get_rng_state(), own["cpu"])
    assert (states, task.sums) == ([], {})


TRANSCRIPTS = ["optimizer.lr=0.01", "transcripts.every=2", "transcripts.utterances=3"]


def rows(transcribed: Path) -> list[dict[str, str]]:
    with (transcribed / "transcripts.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def transcribed(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(config(tiny_corpus, tmp_path_factory.mktemp("with"), *TRANSCRIPTS))


def test_the_same_utterances_are_decoded_after_every_second_batch(transcribed: Path) -> None:
    """Three of ten, evenly spaced, of both speakers; the last ones are of the last weights, without dropout and
    augmentation.
    """
    listed = [(row["batches"], row["id"], row["reference"]) for row in rows(transcribed)]
    three = [("10-1-0000", "a cab"), ("10-1-0004", "dad had a cab"), ("11-1-0004", "bad dad")]
    assert listed == [(str(batches), *one) for batches in (2, 4, 6) for one in three]
    trained = load_run(transcribed)
    trained.data.read("train")
    with torch.no_grad():
        texts = trained.task.decoder(*trained.task(evenly_spaced(trained.data.sets["train"], 3)))
    assert [row["hypothesis"] for row in rows(transcribed)[-3:]] == texts


def test_a_resumed_run_repeats_none_of_them(transcribed: Path, tiny_corpus: Path, tmp_path: Path) -> None:
    """Stopped after the fourth batch, whose rows are written before its checkpoint; one batch was lost with the file
    of the checkpoint, so that the fourth is trained on again.
    """
    cfg = config(tiny_corpus, tmp_path, *TRANSCRIPTS)
    stop(cfg, SignalAt(1, 0, signal.SIGTERM))
    (stopped,) = (path.parent for path in tmp_path.rglob("status.json"))
    with (stopped / "transcripts.csv").open("a") as file:
        file.write("6,10-1-0000,a cab,of a step that the checkpoint has not seen\n")
    assert rows(train(cfg)) == rows(transcribed)

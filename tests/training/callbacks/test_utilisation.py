"""Utilisation, and the largest batch."""

import csv
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loggers import CSVLogger

from asr_ablations.config.build import build
from asr_ablations.data.batch import Batch, Count, Seconds
from asr_ablations.report.utilisation import PARTS
from asr_ablations.runs.metrics_files import COLUMNS, read_utilisation
from asr_ablations.training.assembly import assemble, trainer
from asr_ablations.training.callbacks.largest_batch import check_memory, largest_batch
from asr_ablations.training.callbacks.utilisation import Throughput, Utilisation, read_gpus
from asr_ablations.training.task import ScoredBatch
from asr_verdicts.errors import UsageError
from tests.helpers.processes import wait_for
from tests.helpers.support import compose, tiny_overrides

SLEEP = 0.05
EPOCHS = 2


class SlowReader:
    """Batches that each take `SLEEP` seconds to read."""

    def __init__(self, loader):
        self.loader = loader
        self.batch_sampler = loader.batch_sampler

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        for batch in self.loader:
            time.sleep(SLEEP)
            yield batch


def test_phases_add_up_and_samples_are_in_order_of_time(tiny_corpus: Path, tmp_path: Path) -> None:
    """Of a run that waits for its data."""
    folder = tmp_path
    cfg = compose(*tiny_overrides(tiny_corpus), "width=8", "layers=1", "gpus=0", f"max_epochs={EPOCHS}")
    task, data = assemble(cfg, build(cfg.data))
    data.setup()
    fast = data.train_dataloader
    data.train_dataloader = lambda: SlowReader(fast())
    checkpoints = ModelCheckpoint(dirpath=folder / "checkpoints")
    before = time.perf_counter()
    utilisation = Utilisation(folder, 0.02)
    made = time.perf_counter()
    trainer(cfg, 0, [CSVLogger(folder, name="", version="")], [utilisation, checkpoints]).fit(task, data)
    evaluates = time.perf_counter()
    with utilisation.during("evaluate"):
        inside = time.perf_counter()
        wait_for(lambda: ",evaluate," in (folder / "utilisation.csv").read_text())
        still_inside = time.perf_counter()
    evaluated = time.perf_counter()
    utilisation.close()
    closed = time.perf_counter()
    assert set(utilisation.phases) == {"setup", "train", "validate", "decode", "checkpoint", "evaluate"}
    assert all(value > 0 for value in utilisation.phases.values())
    assert evaluated - made <= sum(utilisation.phases.values()) <= closed - before
    assert still_inside - inside <= utilisation.phases["evaluate"] <= evaluated - evaluates
    samples = read_utilisation(folder)
    seconds = [row["seconds"] for row in samples]
    assert len(samples) > 5
    assert seconds == sorted(seconds)
    assert seconds[0] >= 0
    phases = [row["phase"] for row in samples]
    assert {"train", "evaluate"} <= set(phases)
    after = phases[phases.index("evaluate") :]
    assert set(after) <= {"evaluate", "setup"}  # setup again between the evaluation's end and the thread's
    assert set(samples[0]) == set(COLUMNS)
    for row in samples:
        assert 0 <= row["cpu_percent"] <= 100
        assert 0.05 < row["host_memory_gib"] < 100
        assert row["gpu_percent"] is None
        assert row["part"] in (PARTS if row["phase"] == "train" else [""])
    assert "data" in {row["part"] for row in samples}  # most of the time of a reader that sleeps
    audio = sum(u.duration for u in data.sets["train"].utterances)
    with (folder / "metrics.csv").open() as file:
        validated = [row for row in csv.DictReader(file) if row["validation/dev/wer"]]
    seconds = [float(row["time/seconds"]) for row in validated]
    assert len(seconds) == EPOCHS
    assert 3 * SLEEP <= seconds[0] < seconds[1] < closed - before
    hours = [float(row["time/audio_hours"]) for row in validated]
    assert hours == pytest.approx([audio / 3600, 2 * audio / 3600], rel=1e-4)
    assert samples[-1]["audio_hours"] == pytest.approx(utilisation.audio_hours, abs=1e-5)


def test_waiting_is_the_time_between_batches(tmp_path, monkeypatch):
    """By a clock set by hand: 1 s to the first batch, which takes 2 s, 3 s to the second, which takes 4 s."""
    clock, logged = [0.0], {}
    monkeypatch.setattr("asr_ablations.training.callbacks.utilisation.time.perf_counter", lambda: clock[0])
    utilisation = Utilisation(tmp_path, 1)
    batch = SimpleNamespace(lengths=torch.tensor([16000, 8000]))
    module: Any = SimpleNamespace(log=lambda name, value, **_: logged.update({name: value}))
    fitter: Any = SimpleNamespace(world_size=1, is_last_batch=False)
    utilisation.on_train_epoch_start(fitter, module)
    for number, (waited, trained) in enumerate(((1, 2), (3, 4))):
        clock[0] += waited
        utilisation.on_train_batch_start(fitter, module, batch, number)
        clock[0] += trained
        fitter.is_last_batch = number == 1
        utilisation.on_train_batch_end(fitter, module, None, batch, number)
    assert logged == {"train/waiting_percent": pytest.approx(100 * (1 + 3) / 10)}
    assert utilisation.audio_hours == pytest.approx(2 * 1.5 / 3600)


def test_hours_and_seconds_of_training_add_up_over_epochs_and_resumed_runs(monkeypatch):
    """Two epochs of two batches of one second, 2 s a batch; then the rest of a third in another process."""
    clock, logged = [100.0], {}
    monkeypatch.setattr("asr_ablations.training.callbacks.utilisation.time.perf_counter", lambda: clock[0])
    monkeypatch.setattr("asr_ablations.training.callbacks.utilisation.device_clock", lambda device: clock[0])
    module = SimpleNamespace(device="cpu", log=lambda name, value, **_: logged.update({name: value}))
    fitter = SimpleNamespace(world_size=2, optimizers=[SimpleNamespace(param_groups=[{"lr": 0.25}])])

    def step(throughput, last):
        clock[0] += 2
        fitter.is_last_batch = last
        throughput.on_train_batch_end(fitter, module, None, SimpleNamespace(lengths=torch.tensor([8000, 8000])), 0)

    first, second = Throughput(), Throughput()
    for _ in range(2):
        first.on_train_epoch_start(fitter, module)
        step(first, last=False)
        step(first, last=True)
    epoch = 2 * 2 / 3600  # hours: two batches of a second on each of two ranks
    assert logged["train/audio_hours_per_second"] == pytest.approx(epoch / 4)
    assert (logged["train/epoch_seconds"], logged["train/learning_rate"]) == (4.0, 0.25)
    assert (first.audio_hours, first.train_seconds) == (pytest.approx(2 * epoch), 8.0)
    first.on_train_epoch_start(fitter, module)
    step(first, last=False)
    second.load_state_dict(first.state_dict())
    step(second, last=True)
    assert (second.audio_hours, second.train_seconds) == (pytest.approx(3 * epoch), 12.0)
    assert second.rate == pytest.approx(epoch / 4)
    assert Throughput().rate == 0.0


def test_processor_time_is_of_all_threads_and_sessions(tmp_path, monkeypatch):
    times = [(10.0, 1.0, 0.5, 0.5)]
    monkeypatch.setattr("os.times", lambda: times[0])
    first = Utilisation(tmp_path, 1.0)
    times[0] = (14.0, 2.0, 1.5, 0.5)  # user, system, and both of ended children
    second = Utilisation(tmp_path, 1.0)
    second.load_state_dict(first.state_dict())
    times[0] = (15.0, 2.0, 1.5, 0.5)
    assert (first.processor_seconds, second.processor_seconds) == (7.0, 7.0)


def test_each_gpu_is_told_beside_the_mean_and_a_broken_file_is_read_as_far_as_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers set by hand: two GPUs at 90 and 50 %, of which the second does not tell its power."""

    def power(index):
        if index:
            raise RuntimeError
        return 200_000

    monkeypatch.setattr(torch.cuda, "utilization", lambda index: (90, 50)[index])
    monkeypatch.setattr(torch.cuda, "device_memory_used", lambda index: (index + 1) * 2**30)
    monkeypatch.setattr(torch.cuda, "power_draw", power)
    result = read_gpus([0, 1])
    assert result == {"gpu_percent": 70, "gpu_percents": "90 50", "gpu_memory_gib": 3, "gpu_power_watts": None}
    with (tmp_path / "utilisation.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        table.writerow({"seconds": 1, "phase": "train", **result})
    (row,) = read_utilisation(tmp_path)
    assert (row["gpu_percents"], row["gpu_percent"]) == ([90, 50], 70)
    (tmp_path / "utilisation.csv").write_text("seconds,phase\nx,train\n\x00\n1")
    assert all(isinstance(row["seconds"], float) for row in read_utilisation(tmp_path))
    assert read_utilisation(tmp_path / "missing") == []


def assembled(corpus: Path, *overrides: str) -> Any:
    small = ("width=8", "layers=2", "gpus=0", "dropout=0.5", "norm=batch", "augment=specaugment")
    cfg = compose(*small, *tiny_overrides(corpus), *overrides)
    task, data = assemble(cfg, build(cfg.data))
    data.setup()
    return task.train(), data


def test_it_leaves_no_trace(tiny_corpus: Path) -> None:
    task, data = assembled(tiny_corpus, "batch.size=4")
    before = {key: value.clone() for key, value in task.model.state_dict().items()}
    random = torch.get_rng_state()
    sizes: list[int] = []
    scored = task.scored
    task.scored = lambda batch: sizes.append(len(batch)) or scored(batch)
    check_memory(task, data, nullcontext)
    assert sizes == [4]
    assert all(torch.equal(value, before[key]) for key, value in task.model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random)
    assert all(weights.grad is None for weights in task.parameters())


def test_too_little_memory_is_one_line_with_what_fits(tiny_corpus: Path) -> None:
    for overrides, room, line in (
        (["batch.size=4"], 2, r"batch.size=4: its largest batch, 4 utterances of up to .* batch.size=2 fits$"),
        (["batch.size=4"], 0, r"a smaller one, or precision=16$"),
        (["batch.size=null", "batch.seconds=4"], 1, r"batch.seconds=4: .* batch.seconds=\d+\.\d fits$"),
    ):
        task, data = assembled(tiny_corpus, *overrides)
        scored = task.scored

        def limited(batch: Batch, scored: Any = scored, room: int = room) -> ScoredBatch:
            if len(batch) > room:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return scored(batch)

        task.scored = limited
        with pytest.raises(UsageError, match=line):
            check_memory(task, data, nullcontext)


def test_the_largest_batch_is_the_longest_once_padded() -> None:
    durations = np.array([3.0, 12.0, 7.0, 1.0, 6.0, 5.0])
    assert largest_batch(durations, Count(2, 1)).tolist() == [1, 2]
    # 20 s of audio: one of 12 s, two of 7 s (14), three of 6 s, 5 s and 3 s (18)
    assert largest_batch(durations, Seconds(20.0, 1)).tolist() == [4, 5, 0]
    assert largest_batch(durations, Count(16, 1)).tolist() == [1, 2, 4, 5, 0, 3]
    assert largest_batch(np.empty(0), Count(16, 1)).tolist() == []

"""Measure everything for which this project has GPU goals, and list the missed goals."""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

import pytorch_lightning as pl
import torch
from omegaconf import DictConfig, open_dict
from torch.profiler import ProfilerActivity, profile

from asr_ablations.data.corpus import Corpus
from asr_ablations.runs.reader import first_line
from asr_ablations.tools.checks import number, whole
from asr_ablations.tools.files import REPOSITORY
from asr_ablations.training.assembly import device_count
from asr_benchmarks.project.training import fit_steps, prepare_corpus
from asr_benchmarks.tables import Result, Row
from asr_verdicts.errors import UsageError

WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cuStreamSynchronize")
"""CUDA calls in which the host waits for the GPU. Copies to pageable memory wait in cudaStreamSynchronize."""

BEFORE = 5
"""Number of initial steps whose waits are not counted, because allocation, tuning and compilation cause waits there."""

AT_LEAST = ("port_ratio", "loader_hours_per_second", "efficiency_percent")
"""Goals that are lower bounds. All other goals are upper bounds."""

GOALS: Mapping[str, tuple[str, str, str, Row]] = {
    "step": ("port_ratio", "steps", "port / ours", {}),
    "input": ("loader_hours_per_second", "rows", "audio_hours_per_second", {"workers": 1, "cache": "pcm"}),
    "scaling": ("efficiency_percent", "scaling", "efficiency %", {"scaling": "weak"}),
}
"""The goal of each benchmark that runs as a part: (name of the goal, table, column, values that select the rows).

The smallest value in the selected rows must reach the goal.
"""

Part: TypeAlias = Callable[[DictConfig], Result | Iterator[Result]]
"""A benchmark that runs as a part of benchmark=gpu."""


def gpu(
    cfg: DictConfig,
    *,
    minutes: float | None,
    parts: Mapping[str, Part | None],
    waits: int | None,
    losses: int | None,
    tests: bool,
    goals: Mapping[str, float | None],
) -> Iterator[Result]:
    """Run all parts, and yield the accumulated result after each. If a part fails, add a note and continue."""
    if minutes is not None:
        number("benchmark.minutes", minutes, above=0, also="null for no limit")
    for name, count in {"waits": waits, "losses": losses}.items():
        if count is not None:
            whole(f"benchmark.{name}", count, 1, also="null")
    measured = Measurements(cfg, prepare_corpus(cfg))
    steps: dict[str, Callable[[], None]] = {}
    if tests:
        steps["tests"] = measured.run_tests
    if losses is not None:
        steps["losses"] = partial(measured.compare_losses, losses)
    if waits is not None:
        steps["waits"] = partial(measured.count_waits, waits)
    steps |= {name: partial(measured.run_part, name, part) for name, part in parts.items() if part is not None}
    left_out, ends = list[str](), time.monotonic() + 60 * (minutes or float("inf"))
    if not device_count(cfg):
        measured.notes.append("everything ran on the CPU, but the goals are for a GPU")
    for name, step in steps.items():
        if time.monotonic() > ends:
            left_out.append(f"{name}: the limit of {minutes:g} minutes was reached")
            continue
        try:
            step()
        except _NotHereError as reason:
            left_out.append(f"{name}: {reason}")
        except UsageError:
            raise
        except Exception as error:
            left_out.append(f"{name}: {type(error).__name__}: {first_line(error)}")
        yield measured.judge(goals, left_out)


class _NotHereError(Exception):
    """Raised if this machine cannot run a part. The message is the reason."""


class Measurements:
    """Collects the results of all parts. reached: the measured value for each goal, by the goal's name."""

    def __init__(self, cfg: DictConfig, corpus: Corpus) -> None:
        self.cfg, self.corpus = cfg, corpus
        self.figures: dict[str, Any] = {}
        self.tables: dict[str, Any] = {}
        self.notes: list[str] = []
        self.reached: dict[str, float] = {}

    def judge(self, goals: Mapping[str, float | None], left_out: list[str]) -> Result:
        """Return the accumulated result, with notes about missed goals, goals not measured, and parts left out."""
        missed, unknown = [], []
        for name, goal in goals.items():
            if goal is not None and name not in self.reached:
                unknown.append(name)
            elif goal is not None and (self.reached[name] < goal if name in AT_LEAST else self.reached[name] > goal):
                bound = "at least" if name in AT_LEAST else "at most"
                missed.append(f"{name} {self.reached[name]:.3g}, goal {bound} {goal:g}")
        lines = [f"missed goals: {'; '.join(missed) or 'none'}"]
        lines += [f"not measured: {', '.join(unknown)}"] if unknown else []
        lines += [f"left out: {line}" for line in left_out]
        return Result({**self.figures, **self.reached}, dict(self.tables), [*lines, *self.notes])

    def run_tests(self) -> None:
        """Run the tests that have the pytest mark `gpu`, in a separate process."""
        self._need_gpus(1)
        folder = REPOSITORY / "tests"
        if not folder.is_dir():
            raise _NotHereError("the tests are only in the repository")
        files = sorted(str(file) for file in folder.rglob("test_*.py") if "mark.gpu" in file.read_text("utf-8"))
        command = [sys.executable, "-m", "pytest", "-m", "gpu", "-q", "-p", "no:cacheprovider", "-n", "0", *files]
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
        last = (done.stdout.strip().splitlines() or ["pytest printed nothing"])[-1]
        self.figures["tests_exit_code"] = done.returncode
        self.notes.append(f"tests: {last}")

    def compare_losses(self, steps: int) -> None:
        """Compare the first `steps` training losses on a GPU and on a CPU, in float32 without tf32."""
        self._need_gpus(1)
        by_gpus = {}
        for gpus in (1, 0):
            callback = _Losses()
            self._fit({"gpus": gpus, "precision": 32, "tf32": False}, steps, callback)
            by_gpus[gpus] = [float(loss) for loss in callback.losses]
        pairs = list(zip(by_gpus[1], by_gpus[0], strict=True))
        self.tables["losses"] = [{"step": step, "GPU": a, "CPU": b} for step, (a, b) in enumerate(pairs, start=1)]
        self.reached["largest_loss_difference"] = max(abs(a - b) / abs(b) for a, b in pairs)

    def count_waits(self, steps: int) -> None:
        """Count how often the host waits for the GPU per step, by CUDA call, in float32 and in 16 bits."""
        self._need_gpus(1)
        rows: list[dict[str, Any]] = []
        for precision in (32, 16):
            counted = _WaitCount()
            self._fit({"precision": precision}, BEFORE + steps, counted)
            counts = {"all": counted.counts.total(), **counted.counts}
            rows.append({"precision": precision, **{name: count / steps for name, count in counts.items()}})
        self.tables["waits_per_step"] = rows
        self.reached["waits_per_step"] = max(row["all"] for row in rows)

    def _fit(self, changes: Mapping[str, object], steps: int, callback: pl.Callback) -> None:
        point = self.cfg.copy()
        with open_dict(point):
            point.update(changes)
        pl.seed_everything(point.seed, verbose=False)
        fit_steps(point, self.corpus, steps, [callback])

    def run_part(self, name: str, part: Part) -> None:
        """Run a benchmark as a part, and add its tables, figures and notes with the prefix `name`."""
        if name == "scaling":
            self._need_gpus(2)
        point = self.cfg.copy()
        with open_dict(point):  # the part reads its keys from cfg.benchmark, as when it runs alone
            point.benchmark = self.cfg.benchmark.parts[name]
        measured = part(point)
        result = measured if isinstance(measured, Result) else list(measured)[-1]
        self.tables |= {f"{name}_{table}": rows for table, rows in result.tables.items()}
        self.figures |= {f"{name}_{figure}": value for figure, value in result.figures.items()}
        self.notes += [f"{name}: {note}" for note in result.notes]
        if name == "loop":
            self.reached["loop_ratio"] = float(str(result.figures["ratio"]))
        if name in GOALS:  # sharing has no goal, because the gain depends on the GPU and the model
            goal, table, column, expected = GOALS[name]
            rows = [row for row in result.tables.get(table, []) if expected.items() <= row.items()]
            values = [row[column] for row in rows if row[column] is not None]
            self.reached |= {goal: min(values)} if values else {}

    def _need_gpus(self, least: int) -> None:
        if device_count(self.cfg) < 1 or torch.cuda.device_count() < least:
            raise _NotHereError(f"needs {least} GPU{'s' if least > 1 else ''}")


class _WaitCount(pl.Callback):
    """Counts the host's waits by CUDA call, from a profile of all steps after the first BEFORE ones."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._profile = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: object, n: int) -> None:
        if n == BEFORE:
            torch.cuda.synchronize()
            self._profile.start()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._profile.stop()
        self.counts.update(event.name for event in self._profile.events() or () if event.name in WAITS)


class _Losses(pl.Callback):
    """Collects each step's loss as a tensor, which stays on the device."""

    def __init__(self) -> None:
        self.losses: list[torch.Tensor] = []

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        loss = outputs["loss"] if isinstance(outputs, dict) else outputs
        assert isinstance(loss, torch.Tensor)
        self.losses.append(loss.detach())

"""One command for whoever has a GPU: every figure that this project has goals for, and which of them are missed."""

import copy
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import TypeAlias

import pytorch_lightning as pl
import torch
from omegaconf import DictConfig, open_dict
from pytorch_lightning.loggers import CSVLogger
from torch.profiler import ProfilerActivity, profile

from asr_ablations.config.build import build
from asr_ablations.data.corpus import Corpus
from asr_ablations.runs.checkpoint import first_line
from asr_ablations.tools.checks import is_whole, number, whole
from asr_ablations.tools.files import REPOSITORY
from asr_ablations.training.assembly import assemble, device_count, trainer
from asr_ablations.training.callbacks.progress import ProgressBar
from asr_ablations.training.callbacks.throughput import Throughput
from asr_benchmarks.tables import Result
from asr_verdicts.errors import UsageError, choices

WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cuStreamSynchronize")
"""Calls in which the host waits. A copy to pageable memory waits, too, in a cudaStreamSynchronize of its own."""


class WaitCount:
    """Counts the waits of the host within the context: `counts` by the name of the call, once it has ended."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._profile = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])

    def __enter__(self) -> "WaitCount":
        self._profile.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._profile.__exit__(*error)
        for event in self._profile.events() or ():
            if event.name in WAITS:
                self.counts[event.name] += 1


BEFORE = 5
"""Steps that are not counted: what is allocated, chosen and compiled once waits."""


class _Counted(pl.Callback):
    """Counts waits from the step after BEFORE to the last."""

    def __init__(self) -> None:
        self.count = WaitCount()

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: object, n: int) -> None:
        if n == BEFORE:
            torch.cuda.synchronize()
            self.count.__enter__()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.count.__exit__(None, None, None)


class _Losses(pl.Callback):
    """The loss of each step, kept on the device until the end."""

    def __init__(self) -> None:
        self.kept: list[torch.Tensor] = []

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        loss = outputs["loss"] if isinstance(outputs, dict) else outputs
        assert isinstance(loss, torch.Tensor)
        self.kept.append(loss.detach())


def waits(cfg: DictConfig, corpus: Corpus, steps: int) -> dict[str, float]:
    """Waits of the host per training step on the GPU, by the name of the call in CUDA, and `all`."""
    counted = _Counted()
    _train(cfg, corpus, BEFORE + steps, [counted])
    return {
        name: number / steps for name, number in [("all", counted.count.counts.total()), *counted.count.counts.items()]
    }


def losses(cfg: DictConfig, corpus: Corpus, steps: int, gpus: int) -> list[float]:
    """The loss of each of the first steps in exact float32, on one GPU or, with 0, on the CPU."""
    exact = copy.deepcopy(cfg)
    with open_dict(exact):
        exact.gpus, exact.precision, exact.tf32 = gpus, 32, False
    kept = _Losses()
    _train(exact, corpus, steps, [kept])
    return [float(loss) for loss in kept.kept]


def _train(cfg: DictConfig, corpus: Corpus, steps: int, callbacks: Sequence[pl.Callback]) -> None:
    pl.seed_everything(cfg.seed, verbose=False)
    task, data = assemble(cfg, corpus)
    data.setup()
    with TemporaryDirectory() as folder:
        watching = [Throughput(), ProgressBar(False, quiet=True), *callbacks]
        loggers = [CSVLogger(folder, name="", version="")]
        fitter = trainer(
            cfg, device_count(cfg), loggers, watching, max_epochs=1, limit_train_batches=steps, limit_val_batches=0
        )
        fitter.fit(task, data)


LEAST = ("port_ratio", "loader_hours_per_second", "efficiency_percent")
"""Goals that are to be reached; the others are not to be passed."""

Part: TypeAlias = Callable[[DictConfig], Result | Iterator[Result]]
"""Another benchmark."""


@dataclass
class Measured:
    """Measurements so far. reached: figures that have a goal, the worst of each."""

    result: Result = field(default_factory=Result)
    reached: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, part: Result) -> None:
        self.result.tables |= {f"{name}_{table}": rows for table, rows in part.tables.items()}
        self.result.figures |= {f"{name}_{figure}": value for figure, value in part.figures.items()}
        self.result.notes += [f"{name}: {note}" for note in part.notes]

    def judged(self, goals: Mapping[str, float | None], left_out: list[str]) -> Result:
        """The result with a line on what falls short."""
        missed = [
            f"{name} {self.reached[name]:.3g}, goal {'at least' if name in LEAST else 'at most'} {goal:g}"
            for name, goal in goals.items()
            if goal is not None and name in self.reached and not _holds(name, self.reached[name], goal)
        ]
        unknown = [name for name, goal in goals.items() if goal is not None and name not in self.reached]
        lines = [f"short of the goals: {'; '.join(missed) or 'nothing'}"]
        lines += [f"not measured: {', '.join(unknown)}"] if unknown else []
        lines += [f"left out: {line}" for line in left_out]
        figures = {**self.result.figures, **self.reached}
        return Result(figures, dict(self.result.tables), [*lines, *self.result.notes])


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
    """Yields, after each part, what has been measured so far.

    A part that fails is a note, and the others go on. minutes: after which no other part begins.
    """
    if minutes is not None:
        number("benchmark.minutes", minutes, above=0, also="null for no limit")
    for name, count in {"waits": waits, "losses": losses}.items():
        if count is not None and not is_whole(count, 1):
            raise choices(f"benchmark.{name}", count, "a whole number, 1 or more, or null")
    corpus: Corpus = build(cfg.data)
    corpus.prepare()
    steps: dict[str, Callable[[Measured], None]] = {}
    if tests:
        steps["tests"] = lambda measured: _tests(measured, cfg)
    if losses is not None:
        steps["losses"] = lambda measured: _losses(measured, cfg, corpus, whole("benchmark.losses", losses, 1))
    if waits is not None:
        steps["waits"] = lambda measured: _waits(measured, cfg, corpus, whole("benchmark.waits", waits, 1))
    for name, part in parts.items():
        if part is not None:
            steps[name] = lambda measured, name=name, part=part: _part(measured, cfg, name, part)  # type: ignore[misc]
    measured, left_out, ends = Measured(), list[str](), time.monotonic() + 60 * (minutes or float("inf"))
    if not device_count(cfg):
        measured.result.notes.append("no figure is a GPU's: everything ran on the CPU, and the goals are for a GPU")
    for name, step in steps.items():
        if time.monotonic() > ends:
            left_out.append(f"{name}: the {minutes:g} minutes are over")
            continue
        try:
            step(measured)
        except _NotHereError as reason:
            left_out.append(f"{name}: {reason}")
        except UsageError:
            raise
        except Exception as error:
            left_out.append(f"{name}: {type(error).__name__}: {first_line(error)}")
        yield measured.judged(goals, left_out)


class _NotHereError(Exception):
    """A part that this machine cannot do, with the reason."""


def _holds(name: str, value: float, goal: float) -> bool:
    return value >= goal if name in LEAST else value <= goal


def _needs_gpus(cfg: DictConfig, least: int = 1) -> None:
    if device_count(cfg) < 1 or torch.cuda.device_count() < least:
        raise _NotHereError(f"it needs {least} GPU{'s' if least > 1 else ''}")


def _tests(measured: Measured, cfg: DictConfig) -> None:
    """The tests marked gpu, in a process of their own."""
    _needs_gpus(cfg)
    if not (REPOSITORY / "tests").is_dir():
        raise _NotHereError("the tests are in the repository alone")
    files = [str(file) for file in (REPOSITORY / "tests").rglob("test_*.py") if "mark.gpu" in file.read_text("utf-8")]
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "-q", "-p", "no:cacheprovider", "-n", "0", *sorted(files)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    last = (done.stdout.strip().splitlines() or ["pytest printed nothing"])[-1]
    measured.result.figures["tests_exit_code"] = done.returncode
    measured.result.notes.append(f"tests: {last}")


def _losses(measured: Measured, cfg: DictConfig, corpus: Corpus, steps: int) -> None:
    _needs_gpus(cfg)
    there, here = losses(cfg, corpus, steps, 1), losses(cfg, corpus, steps, 0)
    rows = [{"step": step, "GPU": a, "CPU": b} for step, (a, b) in enumerate(zip(there, here, strict=True), start=1)]
    measured.result.tables["losses"] = rows
    measured.reached["largest_loss_difference"] = max(abs(a - b) / abs(b) for a, b in zip(there, here, strict=True))


def _waits(measured: Measured, cfg: DictConfig, corpus: Corpus, steps: int) -> None:
    _needs_gpus(cfg)
    rows = []
    for precision in (32, 16):
        point = cfg.copy()
        with open_dict(point):
            point.precision = precision
        rows.append({"precision": precision, **waits(point, corpus, steps)})
    measured.result.tables["waits_per_step"] = rows
    measured.reached["waits_per_step"] = max(float(row["all"]) for row in rows)


def _part(measured: Measured, cfg: DictConfig, name: str, part: Part) -> None:
    if name == "scaling":
        _needs_gpus(cfg, 2)
    point = cfg.copy()
    with open_dict(point):  # a part finds its own keys where it stands alone
        point.benchmark = cfg.benchmark.parts[name]
    found = part(point)
    latest = found if isinstance(found, Result) else list(found)[-1]
    measured.add(name, latest)
    for goal, value in _figures(name, latest).items():
        measured.reached[goal] = value


def _figures(name: str, part: Result) -> dict[str, float]:
    """The figures of a part that have a goal, the worst of each."""
    if name == "loop":
        return {"loop_ratio": float(str(part.figures["ratio"]))}
    if name == "sharing":  # how much several small models gain on one GPU is not known beforehand
        return {}
    column, table, goal = {
        "step": ("port / ours", "steps", "port_ratio"),
        "input": ("audio_hours_per_second", "rows", "loader_hours_per_second"),
        "scaling": ("efficiency %", "scaling", "efficiency_percent"),
    }[name]
    values = [row[column] for row in part.tables.get(table, []) if row.get(column) is not None and _counts(name, row)]
    return {goal: min(float(str(value)) for value in values)} if values else {}


def _counts(name: str, row: Mapping[str, object]) -> bool:
    """True if the goal is about this row."""
    if name == "input":
        return row.get("workers") == 1 and row.get("cache") == "pcm"
    return name != "scaling" or row.get("scaling") == "weak"

"""One training step: how long it takes, what takes the time, how much of the machine it uses, and the usual port."""

import copy
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypedDict

import torch
from omegaconf import DictConfig, open_dict

from asr_ablations import SAMPLE_RATE
from asr_ablations.config.build import build
from asr_ablations.config.plain_keys import PRECISIONS
from asr_ablations.data.batch import Batch
from asr_ablations.data.corpus import Corpus
from asr_ablations.data.dataset import Unreadable, collate
from asr_ablations.native.extension import NONE, use
from asr_ablations.tools.checks import is_whole
from asr_ablations.tools.machine import device_clock, peak_memory
from asr_ablations.training.assembly import assemble, device_count, trainer, use_native
from asr_benchmarks.project.bare_step import stepper
from asr_benchmarks.project.parts import (
    clock,
    layer_flops,
    microseconds_per_frame,
    model_of,
    recurrent_layers,
    seconds_of_parts,
    training_flops,
)
from asr_benchmarks.project.port import usual_port
from asr_benchmarks.tables import Result, Row
from asr_benchmarks.timing import Timing, in_turn, noise_notes
from asr_verdicts.errors import choices

PEAKS = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "V100": 125e12}
"""Operations per second of dense 16-bit products, from NVIDIA's data sheets of the SXM modules."""

SIDE = 1024
"""Rows and columns of the square matrices whose product shows what this machine can do."""

OURS, TORCH, PORT, PRODUCT = "ours", "torch", "port", "product"
"""What is measured in turn."""


ProcessorTime = TypedDict(
    "ProcessorTime", {"CPU ms": float | None, "torch CPU ms": float | None, "torch / native": float | None}
)
StepRow = TypedDict(
    "StepRow",
    {
        "ms": float,
        "spread %": float,
        "R": float,
        "GFLOP/s": float,
        "product GFLOP/s": float,
        "MFU %": float,
        "port ms": float | None,
        "port / ours": float | None,
        "native": str,
        "CPU ms": float | None,
        "torch CPU ms": float | None,
        "torch / native": float | None,
    },
)
"""A training step. ms: median; R: hours of valid audio per second; MFU: share of the machine's arithmetic; native: the
target of the native library; CPU ms: of processor time, which other work on the machine disturbs less; torch: the same
step with native=false.
"""


def step_speed(
    cfg: DictConfig,
    *,
    rnns: Mapping[str, object],
    precisions: list[int | str],
    batches: list[int],
    steps: int,
    repeats: int,
    frames: list[int],
) -> Iterator[Result]:
    """Yields, after each recurrent layer, precision and batch size, what has been measured so far.

    In `steps`: medians of milliseconds, R (hours of valid audio per second), the share of the machine's arithmetic, and
    the usual port's milliseconds over ours. In `parts`: the times of parts alone as shares of the step, τ (microseconds
    per frame of a recurrent layer), its GFLOP/s, and the peak of memory.
    """
    _check(precisions, batches, steps, repeats, frames)
    device = torch.device("cuda" if device_count(cfg) else "cpu")
    corpus = build(cfg.data)
    corpus.prepare()
    points = [(rnn, precision, batch) for rnn in rnns for precision in precisions for batch in batches]
    rows: list[Row] = []
    parts: list[Row] = []
    products: list[float] = []
    timings: dict[str, Timing] = {}
    for rnn, precision, batch in points:
        names: dict[str, object] = {"rnn": rnn, "precision": precision, "batch": batch}
        label = f"{rnn}, precision {precision}, batch {batch}"
        measured = Measured(_configured(cfg, rnn, precision, batch), corpus, steps, device)
        of_point = measured.in_turn(repeats, label)
        timings |= {f"{label}, {way}": timing for way, timing in of_point.items() if way != PRODUCT}
        row = measured.row(of_point)
        products.append(row["product GFLOP/s"])
        rows.append({**names, **row})
        parts.append({**names, **measured.parts(frames)})
        figures: dict[str, object] = {
            "model_width": cfg.width,
            "model_layers": cfg.layers,
            "device": _name(device),
            "threads": torch.get_num_threads(),
            "product_gflops": max(products),
        }
        yield Result(figures, {"steps": list(rows), "parts": list(parts)}, noise_notes(timings))


def _check(precisions: list[int | str], batches: list[int], steps: int, repeats: int, frames: list[int]) -> None:
    for precision in precisions:
        if precision not in PRECISIONS:
            raise choices("benchmark.precisions", precision, PRECISIONS)
    for name, values in {"batches": batches, "steps": [steps], "repeats": [repeats], "frames": frames}.items():
        if not all(is_whole(value, 1) for value in values):
            raise choices(f"benchmark.{name}", values, "whole numbers, 1 or more")
    if len(frames) < 2 or frames[0] >= frames[-1]:
        raise choices("benchmark.frames", frames, "two whole numbers, the second larger")


def _configured(cfg: DictConfig, rnn: str, precision: int | str, batch: int) -> DictConfig:
    point = copy.deepcopy(cfg)
    with open_dict(point):
        point.rnn, point.precision = point.benchmark.rnns[rnn], precision
        point.batch.size, point.batch.seconds = batch, None
    return point


class Measured:
    """A point of the grid: our step and, where the usual port has such a model, the port's, over the same batches."""

    def __init__(self, cfg: DictConfig, corpus: Corpus, steps: int, device: torch.device) -> None:
        self.cfg, self.device = cfg, device
        self.task, data = assemble(cfg, corpus)
        self.native = use_native(cfg, device_count(cfg))
        self.processor: dict[str, list[float]] = {OURS: [], TORCH: []}
        data.setup()
        by_duration = sorted(range(len(data.sets["train"])), key=lambda i: data.sets["train"].durations[i])
        size = cfg.batch.size
        starts = [int((len(by_duration) - size) * (n + 0.5) / steps) for n in range(steps)]
        chosen = [by_duration[max(0, start) : max(0, start) + size] for start in starts]
        read = [collate([data.sets["train"][i] for i in indices]) for indices in chosen]
        self.batches = [batch.to(device) for batch in read if not isinstance(batch, Unreadable)]
        plugin = trainer(cfg, device_count(cfg), [], []).precision_plugin
        plugin.convert_module(self.task)
        self.task.to(device).train()
        self.precision, self.scaler = plugin.forward_context, getattr(plugin, "scaler", None)
        self.port = usual_port(self.task, cfg.precision)
        self.step = self._stepper(self.task.model)

    def row(self, timings: Mapping[str, Timing]) -> StepRow:
        ours, port = timings[OURS], timings.get(PORT)
        seconds, product = ours.median, 2 * SIDE**3 / min(timings[PRODUCT].seconds)
        # the data sheet's peak for a known GPU in 16 bits, else what was measured beside the steps
        known = next((peak for part, peak in PEAKS.items() if part in _name(self.device)), product)
        peak = product if self.cfg.precision == 32 else known
        valid = sum(int(batch.lengths.sum()) for batch in self.batches) / SAMPLE_RATE
        frames = [self.task.features.frames(batch.lengths) for batch in self.batches]
        flops = sum(training_flops(model_of(self.task), counts) for counts in frames)
        return {
            "ms": _milliseconds(seconds / len(self.batches)),
            "spread %": ours.spread,
            "R": valid / 3600 / seconds,
            "GFLOP/s": flops / seconds / 1e9,
            "product GFLOP/s": product / 1e9,
            "MFU %": 100 * flops / seconds / peak,
            "port ms": None if port is None else _milliseconds(port.median / len(self.batches)),
            "port / ours": None if port is None else _median_ratio(port, ours),
            "native": self.native,
            **self._processor_time(),
        }

    def _processor_time(self) -> ProcessorTime:
        if self.device.type == "cuda":
            return {"CPU ms": None, "torch CPU ms": None, "torch / native": None}
        mine, torchs = self.processor[OURS][1:], self.processor[TORCH][1:]  # without the first, which warms up
        per_batch = [
            _milliseconds(statistics.median(seconds) / len(self.batches)) for seconds in (mine, torchs) if seconds
        ]
        ratio = statistics.median(b / a for a, b in zip(mine, torchs, strict=True)) if torchs else None
        return {"CPU ms": per_batch[0], "torch CPU ms": per_batch[1] if torchs else None, "torch / native": ratio}

    def parts(self, frames: list[int]) -> dict[str, float | None]:
        """Shares of the step's parts in %, microseconds per frame of a recurrent layer, and the peak of memory. The
        layer's rate is None where its time does not grow with the frames: too few, or other work on the machine.
        """
        peak = self.peak()
        # the whole step once more, next to its parts, so that other work on the machine disturbs both alike
        whole = 0.0
        for batch in self.batches:
            started = clock(self.device)
            self.step(batch)
            whole += clock(self.device) - started
        parts = [seconds_of_parts(self.task, batch, self.precision) for batch in self.batches]
        shares = {f"{kind} %": 100 * sum(seconds[kind] for seconds in parts) / whole for kind in parts[0]}
        last = recurrent_layers(model_of(self.task))[-1]
        tau = microseconds_per_frame(last, self.cfg.batch.size, frames, self.precision)
        rate = layer_flops(last) * self.cfg.batch.size / (tau / 1e6) / 1e9 if tau > 0 else None
        return {**shares, "tau us": tau, "rnn GFLOP/s": rate, "peak GB": peak / 1e9}

    def rate(self, seconds: float) -> float:
        """Hours of valid audio per second, from whole passes over the batches that take at least so many seconds."""
        started, passes = device_clock(self.device), 0
        while not passes or device_clock(self.device) - started < seconds:
            for batch in self.batches:
                self.step(batch)
            passes += 1
        valid = sum(int(batch.lengths.sum()) for batch in self.batches) / SAMPLE_RATE
        return passes * valid / 3600 / (device_clock(self.device) - started)

    def peak(self) -> int:
        """Bytes of memory at most: of the GPU, on a CPU of the process."""
        return _peak_memory(self.device)

    def in_turn(self, repeats: int, title: str) -> dict[str, Timing]:
        """Time our step and the port's over all batches, and a matrix product, in turn."""
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        calls = {OURS: partial(self._time, self.step, self.batches), PRODUCT: partial(product_seconds, self.device)}
        if self.device.type == "cpu":
            calls[OURS] = partial(self._on_processor, OURS, self.native)
        if self.native != NONE:
            calls[TORCH] = partial(self._on_processor, TORCH, False)
        if self.port is not None:
            calls[PORT] = partial(self._time, self._stepper(self.port), self.batches)
        return in_turn(calls, steps=repeats, warmup=1, title=title)

    def _on_processor(self, way: str, native: str | bool) -> float:
        """Seconds of the step with or without the native library; keeps its processor time."""
        use(native if native != NONE else False)
        started = time.process_time()
        seconds = self._time(self.step, self.batches)
        self.processor[way].append(time.process_time() - started)
        use(self.native if self.native != NONE else False)
        return seconds

    def _stepper(self, model: torch.nn.Module) -> Callable[[Batch], None]:
        return stepper(self.task, model, self.precision, self.task.normalised_features, self.scaler)

    def _time(self, step: Callable[[Batch], None], batches: Sequence[Batch]) -> float:
        started = device_clock(self.device)
        for batch in batches:
            step(batch)
        return device_clock(self.device) - started


def _median_ratio(above: Timing, below: Timing) -> float:
    return statistics.median(a / b for a, b in zip(above.seconds, below.seconds, strict=True))


def product_seconds(device: torch.device) -> float:
    """Seconds of the product of two square float32 matrices, the best of three."""
    x, y = (torch.randn(SIDE, SIDE, device=device) for _ in range(2))
    seconds = []
    for _ in range(3):
        started = device_clock(device)
        x @ y
        seconds.append(device_clock(device) - started)
    return min(seconds)


def _milliseconds(seconds: float) -> float:
    return round(1000 * seconds, 1) if seconds < 1 else round(1000 * seconds)


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


def _peak_memory(device: torch.device) -> int:
    """Peak of memory in bytes: of the GPU since this point began, the port's included; on a CPU of the process."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated())
    return peak_memory()

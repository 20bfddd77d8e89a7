"""One training step: how long, of what, how much of the machine it uses, and against the usual port in turn."""

import copy
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from omegaconf import DictConfig, open_dict

from asr_ablations import SAMPLE_RATE
from asr_ablations.config.build import build
from asr_ablations.config.checks import PRECISIONS
from asr_ablations.data.dataset import Unreadable, collate
from asr_ablations.tools.errors import choices
from asr_ablations.tools.machine import device_clock, peak_memory
from asr_ablations.training.assembly import assemble, device_count, trainer
from asr_ablations.training.task import CTCTask
from asr_benchmarks.project.flops import training_flops
from asr_benchmarks.project.parts import microseconds_a_frame, seconds_of_parts
from asr_benchmarks.project.port import NaiveDeepSpeech2
from asr_benchmarks.timing import Timing, in_turn, noise

PEAKS = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "V100": 125e12}
"""Operations a second of dense 16-bit products, from NVIDIA's data sheets of the SXM modules."""

SIDE = 2048
"""Of the matrices whose product tells what this machine can do."""

OURS, PORT, PRODUCT = "ours", "port", "product"
"""What is measured in turn."""


def step_speed(
    cfg: DictConfig,
    *,
    rnns: dict[str, Any],
    precisions: list[Any],
    batches: list[int],
    steps: int,
    repeats: int,
    frames: list[int],
) -> Iterator[dict[str, Any]]:
    """After each recurrent layer, precision and batch size what is found so far. In `steps`: medians of milliseconds, R
    (hours of valid audio a second), the share of the machine's arithmetic, and the usual port's milliseconds over ours;
    in `parts`: the times of parts alone as shares of the step, τ (microseconds a frame of a recurrent layer) and the
    peak of memory.
    """
    _check(precisions, batches, steps, repeats, frames)
    device = torch.device("cuda" if device_count(cfg) else "cpu")
    corpus = build(cfg.data)
    corpus.prepare()
    points = [(rnn, precision, batch) for rnn in rnns for precision in precisions for batch in batches]
    rows, parts = [], []
    timings: dict[str, Timing] = {}
    for rnn, precision, batch in points:
        point = _configured(cfg, rnn, precision, batch)
        names = {"rnn": rnn, "precision": precision, "batch": batch}
        measured = Measured(point, corpus, steps, device)
        told = f"{rnn}, precision {precision}, batch {batch}"
        taken = measured.in_turn(repeats, told)
        timings |= {f"{told}, {way}": timing for way, timing in taken.items() if way != PRODUCT}
        rows.append({**names, **measured.row(taken)})
        parts.append({**names, **measured.parts(frames)})
        yield {
            "model_width": cfg.width,
            "model_layers": cfg.layers,
            "device": _name(device),
            "threads": torch.get_num_threads(),
            "product_gflops": max(row["product GFLOP/s"] for row in rows),
            "steps": rows,
            "parts": parts,
            "notes": noise(timings),
        }


def _check(precisions: list[Any], batches: list[int], steps: int, repeats: int, frames: list[int]) -> None:
    for precision in precisions:
        if precision not in PRECISIONS:
            raise choices("benchmark.precisions", precision, PRECISIONS)
    for name, values in {"batches": batches, "steps": [steps], "repeats": [repeats], "frames": frames}.items():
        if not all(isinstance(value, int) and value >= 1 for value in values):
            raise choices(f"benchmark.{name}", values, "whole numbers, 1 or more")
    if len(frames) < 2 or frames[0] >= frames[-1]:
        raise choices("benchmark.frames", frames, "two whole numbers, the second larger")


def _configured(cfg: DictConfig, rnn: str, precision: Any, batch: int) -> DictConfig:
    point = copy.deepcopy(cfg)
    with open_dict(point):
        point.rnn, point.precision = point.benchmark.rnns[rnn], precision
        point.batch = {"size": batch, "seconds": None}
    return point


class Measured:
    """A point of the grid: our step and, where the usual port has such a model, the port's, over the same batches."""

    def __init__(self, cfg: DictConfig, corpus: Any, steps: int, device: torch.device) -> None:
        self.cfg, self.device = cfg, device
        self.task, data = assemble(cfg, corpus)
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
        self.precision = plugin.forward_context
        self.port = usual_port(self.task, cfg.precision)
        self.step = stepper(self.task, self.task.model, self.precision)

    def row(self, timings: Mapping[str, Timing]) -> dict[str, Any]:
        ours, port = timings[OURS], timings.get(PORT)
        seconds, product = ours.median, 2 * SIDE**3 / min(timings[PRODUCT].seconds)
        # of a known GPU in 16 bits by its data sheet, else what was measured beside the steps
        known = next((peak for part, peak in PEAKS.items() if part in _name(self.device)), product)
        peak = product if self.cfg.precision == 32 else known
        valid = sum(int(batch.lengths.sum()) for batch in self.batches) / SAMPLE_RATE
        counts = [self.task.features.frames(batch.lengths) for batch in self.batches]
        flops = sum(training_flops(self.task.model, count) for count in counts)
        return {
            "ms": _milliseconds(seconds / len(self.batches)),
            "spread %": ours.spread,
            "R": valid / 3600 / seconds,
            "GFLOP/s": flops / seconds / 1e9,
            "product GFLOP/s": product / 1e9,
            "MFU %": 100 * flops / seconds / peak,
            "port ms": port and _milliseconds(port.median / len(self.batches)),
            "port / ours": port and statistics.median(b / a for a, b in zip(ours.seconds, port.seconds, strict=True)),
        }

    def parts(self, frames: list[int]) -> dict[str, Any]:
        peak = _peak_memory(self.device)
        # the whole step once more, next to its parts, so that what else the machine does disturbs both alike
        whole = [self._time(self.step, [batch]) for batch in self.batches]
        found = [seconds_of_parts(self.task, batch, self.precision) for batch in self.batches]
        layer: Any = self.task.model.recurrent[-1]  # type: ignore[index]
        shares = {f"{kind} %": 100 * sum(part[kind] for part in found) / sum(whole) for kind in found[0]}
        tau = microseconds_a_frame(layer, self.cfg.batch.size, frames, self.precision)
        return {**shares, "tau us": tau, "peak GB": peak / 1e9}

    def in_turn(self, repeats: int, title: str) -> dict[str, Timing]:
        """All batches by our step and by the port's, and a matrix product."""
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        calls = {OURS: partial(self._time, self.step, self.batches), PRODUCT: partial(product_seconds, self.device)}
        if self.port is not None:
            calls[PORT] = partial(self._time, stepper(self.task, self.port, self.precision), self.batches)
        return in_turn(calls, steps=repeats, warmup=1, title=title)

    def _time(self, step: Callable[[Any], None], batches: Sequence[Any]) -> float:
        started = device_clock(self.device)
        for batch in batches:
            step(batch)
        return device_clock(self.device) - started


def usual_port(task: CTCTask, precision: Any) -> NaiveDeepSpeech2 | None:
    """With the task's weights, on its device; None where the port has no such model or precision."""
    if str(precision).endswith("true"):
        return None  # its norms would run in 16 bits, too
    try:
        return NaiveDeepSpeech2(task.model).to(task.device).train()
    except ValueError:
        return None


def stepper(
    task: CTCTask, model: torch.nn.Module, precision: Any, features: Callable[[Any], Any] | None = None
) -> Callable[[Any], None]:
    """A bare training step of `model` within the task: features, loss, gradient, optimizer. features: of a batch, with
    their lengths; the task's own where none are given.
    """
    extract = features or task.normalised_features
    parameters = list(model.parameters())
    optimizer = task.make_optimizer(parameters)
    weights = next(iter(parameters)).dtype

    def step(batch: Any) -> None:
        with precision():
            found, lengths = extract(batch)
            logits, lengths = model(found.to(weights), lengths)
            with torch.autocast(found.device.type, enabled=False):
                loss = task.loss(logits.float().log_softmax(dim=-1), lengths, batch)
        optimizer.zero_grad()
        loss.backward()
        task.gradient.before_step(parameters, step=0, seed=0, log=lambda *_, **__: None)
        optimizer.step()

    return step


def product_seconds(device: torch.device) -> float:
    """Of the product of two square float32 matrices, the best of three."""
    x, y = (torch.randn(SIDE, SIDE, device=device) for _ in range(2))
    took = []
    for _ in range(3):
        started = device_clock(device)
        x @ y
        took.append(device_clock(device) - started)
    return min(took)


def _milliseconds(seconds: float) -> float:
    return round(1000 * seconds, 1) if seconds < 1 else round(1000 * seconds)


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


def _peak_memory(device: torch.device) -> int:
    """Bytes: of the GPU since the point began, the port's included; on a CPU of this process since it began."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated())
    return peak_memory()

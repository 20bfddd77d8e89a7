"""Time a training step and its parts, compared with the usual port, and measure trainings that share a device."""

import copy
import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf, open_dict
from torch import nn

from asr_ablations.components.model.directions import Directions
from asr_ablations.config.plain_keys import PRECISIONS
from asr_ablations.data.batch import Batch
from asr_ablations.data.corpus import Corpus
from asr_ablations.data.datamodule import Unreadable, collate
from asr_ablations.native.extension import NONE, use
from asr_ablations.tools.checks import number
from asr_ablations.tools.machine import cores, device_clock, mps_is_on, peak_memory
from asr_ablations.training.assembly import device_count, use_native
from asr_ablations.training.lightning_warnings import silence_lightning
from asr_ablations.training.task import CTCTask
from asr_benchmarks.project.port import usual_port
from asr_benchmarks.project.training import BareTraining, Context, name_device, prepare_corpus, sum_hours
from asr_benchmarks.tables import Result, Row, fill_row
from asr_benchmarks.timing import Timing, check_counts, in_turn, noise_notes
from asr_benchmarks.worker import Group
from asr_verdicts.errors import choices

PEAKS = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "V100": 125e12}
"""Peak operations per second of GPUs in dense 16-bit products, from NVIDIA's data sheets for SXM modules."""

SIDE = 1024
"""Side of the square matrices whose product measures this machine's speed."""

COLUMNS = (
    "ms | spread % | R | GFLOP/s | product GFLOP/s | MFU % | port ms | port / ours | native | CPU ms | "
    "torch CPU ms | torch / native"
)
"""Columns of the table `steps`.

- ms: median time of a step
- R: hours of audio per second, without padding
- MFU: model FLOP utilisation, which is operations per second as a percentage of the machine's peak
- native: instruction set of the native library, or none
- CPU ms: processor time, which other work on the machine affects less than wall time
- torch CPU ms: processor time with native=false
"""

FIGURES = "model_width | model_layers | device | threads | product_gflops"

OURS, TORCH, PORT, PRODUCT = "ours", "torch", "port", "product"
"""Names of the variants that are timed alternately."""


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
    """Measure all combinations of recurrent layer, precision and batch size. Yield the result so far after each."""
    for precision in precisions:
        if precision not in PRECISIONS:
            raise choices("benchmark.precisions", precision, PRECISIONS)
    check_counts(batches=batches, steps=steps, repeats=repeats, frames=frames)
    if len(frames) < 2 or frames[0] >= frames[-1]:
        raise choices("benchmark.frames", frames, "two increasing whole numbers")
    corpus = prepare_corpus(cfg)
    rows: list[Row] = []
    parts: list[Row] = []
    timings: dict[str, Timing] = {}
    for rnn, precision, batch in [(rnn, p, batch) for rnn in rnns for p in precisions for batch in batches]:
        point = copy.deepcopy(cfg)
        with open_dict(point):
            point.rnn, point.precision = point.benchmark.rnns[rnn], precision
            point.batch.size, point.batch.seconds = batch, None
        names = {"rnn": rnn, "precision": precision, "batch": batch}
        label = f"{rnn}, precision {precision}, batch {batch}"
        measured = MeasuredStep(point, corpus, steps)
        by_way = measured.time_in_turn(repeats, label)
        timings |= {f"{label}, {way}": timing for way, timing in by_way.items() if way != PRODUCT}
        rows.append({**names, **measured.build_row(by_way)})
        parts.append({**names, **measured.measure_parts(frames)})
        place = (cfg.width, cfg.layers, name_device(measured.device), torch.get_num_threads())
        figures = fill_row(FIGURES, *place, max(row["product GFLOP/s"] for row in rows))
        yield Result(figures, {"steps": list(rows), "parts": list(parts)}, noise_notes(timings))


class MeasuredStep(BareTraining):
    """Measures this project's step, and the usual port's step if the port supports the model, on the same batches."""

    def __init__(self, cfg: DictConfig, corpus: Corpus, steps: int) -> None:
        super().__init__(cfg, corpus)
        self.native = use_native(cfg, device_count(cfg))
        self.processor: dict[str, list[float]] = {OURS: [], TORCH: []}
        speech, size = self.data.sets["train"], cfg.batch.size
        by_duration = sorted(range(len(speech)), key=lambda i: speech.durations[i])
        starts = [int((len(by_duration) - size) * (n + 0.5) / steps) for n in range(steps)]
        chosen = [by_duration[max(0, start) : max(0, start) + size] for start in starts]
        read = [collate([speech[i] for i in indices]) for indices in chosen]
        self.batches = [batch.to(self.device) for batch in read if not isinstance(batch, Unreadable)]
        self.model: Any = self.task.model
        self.port = usual_port(self.task, cfg.precision)
        self.step: Callable[[Batch], None] = self.make_step(self.task.model)

    def time_in_turn(self, repeats: int, title: str) -> dict[str, Timing]:
        """Time our step, the port's step and a matrix product alternately. One measurement covers all batches."""
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        calls = {OURS: partial(self._time, self.step), PRODUCT: partial(_time_product, self.device)}
        if self.device.type == "cpu":
            calls[OURS] = partial(self._time_on_processor, OURS, self.native)
        if self.native != NONE:
            calls[TORCH] = partial(self._time_on_processor, TORCH, False)
        if self.port is not None:
            calls[PORT] = partial(self._time, self.make_step(self.port))
        return in_turn(calls, steps=repeats, warmup=1, title=title)

    def build_row(self, timings: Mapping[str, Timing]) -> Row:
        """Build a row with COLUMNS from the timings."""

        def per_batch(seconds: Sequence[float]) -> float | None:
            if not seconds:
                return None
            milliseconds = 1000 * statistics.median(seconds) / len(self.batches)
            return round(milliseconds, 1 if milliseconds < 1000 else None)

        ours, port = timings[OURS], timings.get(PORT)
        seconds, product = ours.median, 2 * SIDE**3 / min(timings[PRODUCT].seconds)
        # for 16 bits on a GPU in PEAKS, the peak is from the data sheet; otherwise it is the product's measured speed
        sheet = next((peak for part, peak in PEAKS.items() if part in name_device(self.device)), product)
        peak = product if self.cfg.precision == 32 else sheet
        frames = [self.task.features.frames(batch.lengths) for batch in self.batches]
        flops = sum(count_training_flops(self.model, counts) for counts in frames)
        # the first value is from the warm-up
        ours_cpu, torch_cpu = self.processor[OURS][1:], self.processor[TORCH][1:]
        speeds = (sum_hours(self.batches) / seconds, flops / seconds / 1e9, product / 1e9, 100 * flops / seconds / peak)
        ported = (None, None) if port is None else (per_batch(port.seconds), _compare(port.seconds, ours.seconds))
        times_native = _compare(torch_cpu, ours_cpu) if torch_cpu else None
        native = (self.native, per_batch(ours_cpu), per_batch(torch_cpu), times_native)
        return fill_row(COLUMNS, per_batch(ours.seconds), ours.spread, *speeds, *ported, *native)

    def measure_parts(self, frames: list[int]) -> dict[str, Any]:
        """Measure each part's share of the step in %, and the speed of a recurrent layer.

        The speed is None if the layer's time does not grow with the number of frames.
        """
        peak = self.read_peak()
        # time the whole step again right before its parts, so that other work on the machine slows both alike
        whole = 0.0
        for batch in self.batches:
            started = read_clock(self.device)
            self.step(batch)
            whole += read_clock(self.device) - started
        parts = [time_parts(self.task, batch, self.precision) for batch in self.batches]
        shares = {f"{kind} %": 100 * sum(seconds[kind] for seconds in parts) / whole for kind in parts[0]}
        last, size = self.model.recurrent[-1], self.cfg.batch.size
        tau = measure_microseconds_per_frame(last, size, frames, self.precision)
        rate = count_layer_flops(last) * size / (tau / 1e6) / 1e9 if tau > 0 else None
        return {**shares, "tau us": tau, "rnn GFLOP/s": rate, "peak GB": peak / 1e9}

    def measure_rate(self, seconds: float) -> float:
        """Return hours of training audio per second, measured in whole passes that take at least `seconds` seconds."""
        started, passes = device_clock(self.device), 0
        while not passes or device_clock(self.device) - started < seconds:
            self._time(self.step)
            passes += 1
        return passes * sum_hours(self.batches) / (device_clock(self.device) - started)

    def read_peak(self) -> int:
        """Return the peak memory in bytes, of the GPU during this measurement, or of the process on a CPU."""
        return int(torch.cuda.max_memory_allocated()) if self.device.type == "cuda" else peak_memory()

    def _time_on_processor(self, way: str, native: str | bool) -> float:
        """Time the step with a native library or without one (false), and record its processor time under `way`."""
        use(native if native != NONE else False)
        started = time.process_time()
        seconds = self._time(self.step)
        self.processor[way].append(time.process_time() - started)
        use(self.native if self.native != NONE else False)
        return seconds

    def _time(self, step: Callable[[Batch], None]) -> float:
        started = device_clock(self.device)
        for batch in self.batches:
            step(batch)
        return device_clock(self.device) - started


def _compare(above: Sequence[float], below: Sequence[float]) -> float:
    """Return the median of the pairwise ratios above / below."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def _time_product(device: torch.device) -> float:
    """Time the product of two square float32 matrices three times. Return the shortest time in seconds."""
    x, y = (torch.randn(SIDE, SIDE, device=device) for _ in range(2))
    seconds = []
    for _ in range(3):
        started = device_clock(device)
        x @ y
        seconds.append(device_clock(device) - started)
    return min(seconds)


def read_clock(device: torch.device) -> float:
    """Return processor time in seconds on a CPU, or wall time on a GPU after its pending work has finished."""
    return time.process_time() if device.type == "cpu" else device_clock(device)


GATES: dict[type[nn.Module], int] = {nn.LSTM: 4, nn.GRU: 3, nn.RNN: 1}


def count_training_flops(model: Any, frames: torch.Tensor) -> float:
    """Count the operations of a forward and backward pass, without padding. frames: frame count of each utterance (B,).

    Only convolutions, recurrent cells and linear layers count. For each product in the forward pass, the backward pass
    has two: one for the weight gradient, and one for the input gradient, which the first layer does not need.
    """
    counted = list(_count_forward(model, frames))
    return 3 * sum(counted) - counted[0]


def _count_forward(model: Any, frames: torch.Tensor) -> Iterator[float]:
    """Yield the forward-pass operations of each convolution, then the sum over all other layers."""
    for convolution in model.convolutions:
        frames = convolution.output_lengths(frames)
        yield 2 * convolution.convolve.weight.numel() * convolution.bins * float(frames.sum())
    others = [model.recurrent, model.lookahead, model.connected, model.output]
    layers = itertools.chain.from_iterable(part.modules() for part in others if isinstance(part, nn.Module))
    yield sum(_count_per_frame(layer) for layer in layers) * float(frames.sum())


def count_layer_flops(layer: Directions) -> float:
    """Count a recurrent layer's operations for one frame of one utterance, in the forward and backward pass."""
    return 3 * sum(map(_count_per_frame, layer.modules()))


def _count_per_frame(layer: nn.Module) -> float:
    if isinstance(layer, nn.RNNBase) and type(layer) in GATES:
        return 2.0 * GATES[type(layer)] * layer.hidden_size * (layer.input_size + layer.hidden_size)
    return 2.0 * layer.weight.numel() if isinstance(layer, (nn.Linear, nn.Conv1d)) else 0.0


def time_parts(task: CTCTask, batch: Batch, precision: Context) -> dict[str, float]:
    """Return the seconds that the parts conv, rnn, norm and ctc take. Each part runs twice; the second run counts."""
    kinds = _sort_parts(task.model)
    inputs: dict[nn.Module, tuple[torch.Tensor, ...]] = {}
    hooks = [part.register_forward_pre_hook(lambda module, x: inputs.update({module: x})) for part in kinds]
    with torch.no_grad(), precision():
        features, frames = task.normalised_features(batch)
        log_probs, lengths = task.log_probs(features, frames)
    for hook in hooks:
        hook.remove()
    spent = dict.fromkeys(("conv", "rnn", "norm", "ctc"), 0.0)
    for part, kind in kinds.items():
        x, *others = inputs[part]
        spent[kind] += _time_part(part, x, others, precision)
    spent["ctc"] = _time_part(task.loss, log_probs, [lengths, batch], precision)
    return spent


def measure_microseconds_per_frame(layer: Directions, batch: int, frames: list[int], precision: Context) -> float:
    """Measure how many microseconds one more frame adds to a recurrent layer's forward and backward pass."""
    weight = next(layer.parameters())
    size = next(parameter.shape[-1] for parameter in layer.forwards.parameters() if parameter.dim() == 2)
    seconds = []
    for count in (frames[0], frames[-1]):
        x = torch.randn(batch, count, size, device=weight.device, dtype=weight.dtype)
        lengths = torch.full((batch,), count)
        seconds.append(min(_time_part(layer, x, [lengths], precision) for _ in range(3)))
    return 1e6 * (seconds[1] - seconds[0]) / (frames[-1] - frames[0])


def _sort_parts(model: Any) -> dict[nn.Module, str]:
    """Return the parts of a model that are timed, each with its kind (conv, norm or rnn)."""
    first = list(model.convolutions)
    products = {convolution.convolve: "conv" for convolution in first}
    norms = dict.fromkeys((*(convolution.norm for convolution in first), *model.norms), "norm")
    return {**products, **norms, **dict.fromkeys(model.recurrent, "rnn")}


def _time_part(
    part: Callable[..., torch.Tensor], x: torch.Tensor, others: Sequence[object], precision: Context
) -> float:
    """Run a part twice. Return the second run's seconds, including a backward pass if the output needs gradients."""
    seconds = 0.0
    for _ in range(2):
        x = x.detach().requires_grad_()
        started = read_clock(x.device)
        with precision():
            y = part(x, *others)
        if y.requires_grad:
            y.sum().backward()
        seconds = read_clock(x.device) - started
    return seconds


BATCHES = 20
"""Number of batches that each training repeats."""


def load_step(config: str) -> MeasuredStep:
    """Build the measured step in a worker process. config: the training's config as YAML."""
    silence_lightning()
    cfg: Any = OmegaConf.create(config)
    return MeasuredStep(cfg, prepare_corpus(cfg), BATCHES)


def sharing(cfg: DictConfig, *, side_by_side: list[int], seconds: float, repeats: int) -> Iterator[Result]:
    """Measure each number of trainings side by side on one device. Yield the accumulated result after each.

    - R: total hours of audio per second in all trainings, as the median of `repeats` measurements
    - gain: R relative to the first number of trainings
    - MPS: whether NVIDIA's Multi-Process Service lets several processes compute on a GPU at the same time
    """
    check_counts(side_by_side=side_by_side, repeats=repeats)
    number("benchmark.seconds", seconds, above=0)
    rows: list[dict[str, Any]] = []
    config = OmegaConf.to_yaml(cfg, resolve=True)
    for count in side_by_side:
        rows.append(_train_side_by_side(config, count, seconds, repeats))
        rows[-1]["gain"] = rows[-1]["R"] / rows[0]["R"]
        best = max(rows, key=lambda row: row["R"])
        figures: dict[str, object] = {"best": best["side by side"], "best gain": best["gain"], "MPS": mps_is_on()}
        yield Result(figures, {"sharing": list(rows)})


def _train_side_by_side(config: str, count: int, seconds: float, repeats: int) -> dict[str, Any]:
    with Group(partial(load_step, config), count, max(1, cores() // count)) as group:
        group.call("measure_rate", 0.0)  # compile, allocate memory, and wait until all processes are ready
        rates = [sum(group.call("measure_rate", seconds)) for _ in range(repeats)]
        memory = max(group.call("read_peak")) / 1e9
    together = statistics.median(rates)
    return {"side by side": count, "R": together, "each": together / count, "gain": None, "memory GB": memory}

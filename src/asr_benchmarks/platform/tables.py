"""Tables of benchmark=platform, computed from the run folder and by decoding with several beam widths."""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from asr_ablations.comparison.time_to_accuracy import curve, times_of_arms
from asr_ablations.evaluation.evaluate import log_probs_of
from asr_ablations.report.curves import SMOOTHED_SAMPLES, smooth, throughput_curve
from asr_ablations.runs.metrics_files import read_utilisation
from asr_ablations.training.contracts import Decoder
from asr_ablations.training.trained_model import load_run
from asr_benchmarks.plots import Plot, plot
from asr_benchmarks.tables import Row, Table, fill_row
from asr_benchmarks.timing import in_turn, noise_notes
from asr_verdicts.arms import Arm
from asr_verdicts.error_counts import character_errors, word_errors
from asr_verdicts.files import Json
from asr_verdicts.metrics import CER, CER_LONGER, WER, Metric, find_metric
from asr_verdicts.record import Record

SAMPLED = {
    "CPU %": "cpu_percent",
    "memory GiB": "host_memory_gib",
    "GPU %": "gpu_percent",
    "GPU memory GiB": "gpu_memory_gib",
    "GPU power W": "gpu_power_watts",
}
"""Columns in utilisation.csv, by row of the table `utilisation`."""

FIGURES = (
    "parameters | epochs | minutes of training | hours of audio trained | "
    "waiting for data % | peak memory GiB | GPU kWh"
)

PARTS = {"total": "the machine", "gpus": "its GPUs", "cpus": "its CPUs"}
"""Rows in the table `price`, by key of `benchmark.price` (Baunsgaard2020 table 1)."""


def list_figures(run: Record) -> dict[str, object]:
    """Return figures for the whole training. Waiting is the share of the training time that passes between batches."""
    summary: Any = run.summary
    trained = (summary.seconds["train"] / 60, summary.audio_hours_seen, _mean(run.metrics, "train/waiting_percent"))
    memory, energy = summary.peak_memory_bytes / 2**30, sum_energy(read_utilisation(run.folder))
    return fill_row(FIGURES, summary.parameters, summary.epochs, *trained, memory, energy)


def list_throughput(run: Record) -> Table:
    """List the throughput without and with validations, in hours of audio per second (Baunsgaard2020 §4.1.3)."""
    summary: Any = run.summary
    per_hour = summary.train_utterances / summary.train_hours
    rates = {
        "training steps": summary.audio_hours_per_second,
        "with validations": summary.audio_hours_seen / summary.seconds["train"],
    }
    return [
        {"part": name, "R": rate, "times real time": 3600 * rate, "utterances/s": per_hour * rate}
        for name, rate in rates.items()
    ]


def list_phases(run: Record) -> Table:
    """List the seconds of each phase, from set-up to the final evaluation, and its share of the total time."""
    phases: Any = run.summary.phase_seconds
    whole = sum(phases.values())
    return [{"phase": name, "seconds": float(s), "share %": 100 * s / whole} for name, s in phases.items()]


def list_utilisation(run: Record) -> Table:
    """List each counter's mean during training steps and during the whole run, or None if it was not reported."""
    rows = read_utilisation(run.folder)
    steps = [row for row in rows if row["phase"] == "train"]
    return [
        {"mean": name, "training steps": _mean(steps, column), "whole run": _mean(rows, column)}
        for name, column in SAMPLED.items()
    ]


def sum_energy(rows: Sequence[Json], until: float | None = None) -> float | None:
    """Return the kWh that the GPUs used in the first `until` seconds, or None if power samples are missing."""
    within = [row for row in rows if until is None or row["seconds"] <= until]
    if len(within) < 2 or any(row["gpu_power_watts"] is None for row in within):
        return None
    joules = sum((after["seconds"] - row["seconds"]) * after["gpu_power_watts"] for row, after in pairwise(within))
    return float(joules) / 3.6e6


def list_times_to_accuracy(run: Record, targets: Mapping[str, Sequence[float]]) -> list[Row]:
    """List time, energy and cost until each target is reached. targets: error rates as fractions, by metric."""
    samples = read_utilisation(run.folder)
    return [
        {
            "rate": find_metric(rate).label,
            "target %": f"{100 * attempt.target:g}",
            "minutes": None if attempt.seconds is None else attempt.seconds / 60,
            "epochs trained": attempt.epochs,
            "hours of audio": attempt.audio_hours,
            "GPU kWh": None if attempt.seconds is None else sum_energy(samples, attempt.seconds),
            "cost": attempt.cost,
        }
        for rate, values in targets.items()
        for attempt in (times_of_arms([Arm("", [run])], find_metric(rate), values) if values else [])
    ]


def list_accuracy(run: Record) -> Table:
    """List the final weights' error rates on every set, with the run's decoder (Baunsgaard2020 table 5)."""
    summary: Any = run.summary
    metrics = (WER, CER, CER_LONGER)
    return [{"set": name, **{m.heading: 100 * summary.value(name, m.name) for m in metrics}} for name in summary.sets]


def list_prices(run: Record, bought: Mapping[str, float | None]) -> Table:
    """List the prices of buying the machine and its parts, and of renting it for this training, in any currency."""
    per_hour = (run.config.get("hardware") or {}).get("price_per_hour")
    summary: Any = run.summary
    training = None if per_hour is None else float(per_hour) * summary.seconds["train"] / 3600
    prices = {
        **{name: bought.get(part) for part, name in PARTS.items()},
        "an hour of the machine": per_hour,
        "this training": training,
        "an hour of audio trained": None if training is None else training / summary.audio_hours_seen,
    }
    return [{"item": name, "price": None if amount is None else float(amount)} for name, amount in prices.items()]


def _mean(rows: Sequence[Row], column: str) -> float | None:
    values = [row[column] for row in rows if row.get(column) is not None]
    return fmean(values) if values else None


WINDOW = 25.0
"""Seconds that the utilisation plot covers, as in Baunsgaard2020 figure 8."""
POINTS = 100
"""Maximum number of points in the plot of throughput over time."""

Line = dict[float, float | None]


def draw_plots(run: Record, throughput: Table, targets: Table, evaluated: Table) -> list[Plot]:
    """Describe the plots for which the run has data."""
    rates = {metric.label: _list_rates(run, metric) for metric in (WER, CER_LONGER)}
    speeds = {"training": {row["part"]: row["times real time"] for row in throughput}}
    reached = {f"{row['rate']} {row['target %']} %": row["minutes"] for row in targets}
    seconds = {row["beam width"]: row["seconds"] for row in evaluated}
    minutes, over_time = "minutes of training", "seconds of audio per second"
    drawn = [
        plot("Utilisation over 25 seconds", "lines", "seconds", "%", _list_window(read_utilisation(run.folder))),
        plot("Throughput over time", "lines", minutes, over_time, {"training": _list_throughput_over_time(run)}),
        plot("Throughput", "bars", "", over_time, speeds),
        plot("Rates over time", "lines", minutes, "%", rates, log=True),
        plot("Time to accuracy", "bars", "median over three validations", "minutes", {"reached": reached}),
        plot("Evaluation time by beam width", "lines", "beam width", "seconds", {"beam": seconds}, log=True),
    ]
    return [shown for shown in drawn if any(y is not None for line in shown["series"].values() for _, y in line)]


def _list_window(rows: Sequence[Json]) -> dict[str, Line]:
    """Return lines of CPU and GPU utilisation in %, over WINDOW seconds in the middle of training."""
    steps = [row for row in rows if row["phase"] == "train"] or list(rows)
    if not steps:
        return {}
    begin = max(steps[0]["seconds"], steps[len(steps) // 2]["seconds"] - WINDOW / 2)
    within = [row for row in rows if begin <= row["seconds"] <= begin + WINDOW]
    lines: dict[str, Line] = {"CPU": {round(row["seconds"] - begin, 2): row["cpu_percent"] for row in within}}
    for number in range(max((len(row["gpu_percents"]) for row in within), default=0)):
        gpu_rows = [row for row in within if len(row["gpu_percents"]) > number]
        lines[f"GPU {number}"] = {round(row["seconds"] - begin, 2): row["gpu_percents"][number] for row in gpu_rows}
    return lines


def _list_throughput_over_time(run: Record) -> Line:
    samples = throughput_curve(run)
    parts = np.array_split(np.arange(len(samples.y)), min(POINTS, max(1, len(samples.y))))
    values = smooth(samples.y, SMOOTHED_SAMPLES)
    return {float(samples.x[part].mean()) / 60: float(values[part].mean()) for part in parts if len(part)}


def _list_rates(run: Record, metric: Metric) -> Line:
    """Return an error rate in % by minutes of training. Omit zeros, which a logarithmic axis cannot show."""
    points = ((point.spent["seconds"], point.value) for point in curve(run, metric))
    return {seconds / 60: 100 * value for seconds, value in points if seconds is not None and value}


def compare_beam_widths(
    folder: Path, decoder: partial[Decoder], widths: Sequence[int], utterances: int | None, repeats: int
) -> tuple[list[Row], list[str]]:
    """Decode `utterances` utterances of the first validation set (None: all) with each width. Return rows and notes."""
    trained = load_run(folder)
    trained.data.corpus.prepare()
    name = trained.data.corpus.validation[0]
    stored = log_probs_of(trained, name)
    count = len(stored.lengths)
    chosen = np.linspace(0, count - 1, min(utterances or count, count)).astype(int)
    log_probs = stored.read()
    outputs = [torch.from_numpy(np.array(log_probs[i], dtype=np.float32)) for i in chosen]
    lengths, padded = torch.tensor([len(row) for row in outputs]), pad_sequence(outputs, batch_first=True)  # (B, T, V)
    spoken = [stored.utterances[i] for i in chosen]
    decoders = {width: decoder(trained.task.alphabet, beam_width=width) for width in widths}
    decoded: dict[int, list[str]] = {}

    def decode(width: int) -> float:
        started = time.perf_counter()
        decoded[width] = decoders[width](padded, lengths)
        return time.perf_counter() - started

    calls = {f"beam {width}": partial(decode, width) for width in widths}
    timings = in_turn(calls, steps=repeats, warmup=0, title="decoding")
    seconds = sum(utterance.duration for utterance in spoken)
    forward = stored.seconds * seconds / stored.audio_seconds
    rows: list[Row] = []
    for width, hypotheses in decoded.items():
        texts = [(utterance.text, text) for utterance, text in zip(spoken, hypotheses, strict=True)]
        characters = [character_errors(*pair) for pair in texts]
        counts = {
            "WER %": [word_errors(*pair) for pair in texts],
            "CER %": characters,
            "CER (longer) %": [errors.over_longer for errors in characters],
        }
        rates = {rate: 100 * float(sum(errors[1:], errors[0]).rate) for rate, errors in counts.items()}
        rows.append({"beam width": width, "seconds": forward + timings[f"beam {width}"].median, **rates})
    speech = f"{len(spoken)} utterances of {name}, {seconds / 60:.1f} minutes of speech"
    note = f"evaluation by beam width: {speech}; a beam search takes longer if the model is uncertain"
    return rows, [note, *noise_notes(timings)]

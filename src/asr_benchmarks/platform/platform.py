"""Train a model on one machine, and measure throughput, utilisation, time to accuracy and price (Baunsgaard2020 §4)."""

import copy
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import psutil
import pytorch_lightning as pl
import torch
from omegaconf import DictConfig, OmegaConf, open_dict

from asr_ablations.config.entry import entry
from asr_ablations.experiment.fit import TrainingRun
from asr_ablations.experiment.run import set_up
from asr_ablations.runs.folder import Run
from asr_ablations.runs.layout import CONFIG
from asr_ablations.runs.process import command, wait_for
from asr_ablations.runs.records import read_run
from asr_ablations.runs.status import why_unfinished
from asr_ablations.tools.checks import is_number, is_whole, number
from asr_ablations.tools.machine import rank
from asr_ablations.training.assembly import device_count
from asr_ablations.training.contracts import Decoder
from asr_ablations.training.lightning_warnings import silence_lightning
from asr_ablations.training.signals import StopRequest
from asr_benchmarks.platform import tables as measured
from asr_benchmarks.platform.tables import compare_beam_widths
from asr_benchmarks.tables import Result, Row, Table, published
from asr_benchmarks.timing import check_counts
from asr_verdicts.config import ranks
from asr_verdicts.errors import choices
from asr_verdicts.files import write
from asr_verdicts.metrics import METRICS
from asr_verdicts.record import Record

RELATIVE = {"time_to_accuracy": ["minutes"], "throughput": ["R"]}
"""Columns that comparisons also show as a percentage of the first machine's value (Baunsgaard2020 table 4)."""

RATES = tuple(name for name, metric in METRICS.items() if metric.is_rate)


class TrainingFailedError(Exception):
    """Raised if the training did not finish. The training process has printed the reason to standard error."""

    def __init__(self, reason: str, exit_code: int) -> None:
        self.exit_code = exit_code
        super().__init__(reason)


def platform(
    cfg: DictConfig,
    *,
    minutes: float | None,
    targets: Mapping[str, Sequence[float]],
    beam_widths: Sequence[int],
    utterances: int | None,
    repeats: int,
    decoder: partial[Decoder],
    price: Mapping[str, float | None],
) -> Result:
    """Train the model of a config once, in the subfolder `training`. Return the results and the paper's tables."""
    check_counts(repeats=repeats, utterances=1 if utterances is None else utterances)
    if minutes is not None:
        number("benchmark.minutes", minutes, above=0, also="null for max_epochs")
    for rate, values in targets.items():
        if rate not in RATES:
            raise choices("benchmark.targets", rate, RATES)
        if not all(is_number(value) and value >= 0 for value in values):
            raise choices(f"benchmark.targets.{rate}", list(values), "rates, 0 or more; 0.2 is 20 %")
    different = len(set(beam_widths)) == len(beam_widths)
    if not beam_widths or not different or not all(is_whole(width, 1) for width in beam_widths):
        raise choices("benchmark.beam_widths", list(beam_widths), "different whole numbers, 1 or more")
    for part, amount in price.items():
        if part not in measured.PARTS:
            raise choices("benchmark.price", part, tuple(measured.PARTS))
        if amount is not None:
            number(f"benchmark.price.{part}", amount, least=0, also="null if unknown")
    run = read_run(_train(cfg, minutes))
    throughput = measured.list_throughput(run)
    reached = measured.list_times_to_accuracy(run, targets)
    evaluated, notes = compare_beam_widths(run.folder, decoder, beam_widths, utterances, repeats)
    return Result(
        figures=measured.list_figures(run),
        tables={
            "throughput": throughput,
            "phases": measured.list_phases(run),
            "utilisation": measured.list_utilisation(run),
            "time_to_accuracy": reached,
            "accuracy": measured.list_accuracy(run),
            "evaluation_by_beam_width": evaluated,
            "price": measured.list_prices(run, price),
            **read_published_tables(),
        },
        notes=[*_explain(run, minutes, reached), *notes],
        plots=measured.draw_plots(run, throughput, reached, evaluated),
        relative=RELATIVE,
        machine=_read_memory(),
    )


def _train(cfg: DictConfig, minutes: float | None) -> Path:
    """Train in separate processes, and return the run folder. Raise TrainingFailedError if the run does not finish."""
    training, folder = copy.deepcopy(cfg), Run(cfg).folder
    with open_dict(training):
        training.benchmark = {"minutes": minutes}
        training.outputs, training.sweep = str(folder.resolve()), "training"
        training.overrides = [
            override for override in cfg.overrides if not override.lstrip("+").startswith("benchmark")
        ]
    run = set_up(training).record.folder  # invalid values raise a one-line error here
    run.parent.mkdir(parents=True, exist_ok=True)
    config = run.parent / CONFIG
    write(config, OmegaConf.to_yaml(training, resolve=True))
    code = wait_for(command(Path(__file__), config, ranks(training)))
    if (reason := why_unfinished(run)) or code:
        raise TrainingFailedError(f"the training failed: {reason or 'it ended early'}", code or 1)
    return run


def _read_memory() -> dict[str, object]:
    sizes = [torch.cuda.get_device_properties(i).total_memory / 2**30 for i in range(torch.cuda.device_count())]
    gpus = {"GPU memory": ", ".join(f"{size:.0f} GiB" for size in sizes)} if sizes else {}
    return {"memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB", **gpus}


def _explain(run: Record, minutes: float | None, reached: Table) -> list[str]:
    spent, epochs = run.summary.seconds["train"] / 60, run.summary.epochs
    limit = f"max_epochs={run.config['max_epochs']}" if minutes is None else f"benchmark.minutes={minutes:g}"
    lines = [
        f"epochs trained in {spent:.3g} minutes, with {limit}: {epochs}; {run.folder.parent.name}/{run.folder.name}",
        "R: hours of training audio per second; time to accuracy: until the median of three validations is low enough",
    ]
    if (count := run.summary.ranks or 1) > 1:
        lines.append(f"CPU, memory and waiting were measured on the first of {count} ranks, GPUs on all ranks")
    if missed := [f"{row['rate']} {row['target %']} %" for row in reached if row["minutes"] is None]:
        lines.append(f"not reached: {', '.join(missed)}")
    return lines


def read_published_tables() -> dict[str, Table]:
    """Return the tables in Baunsgaard2020 §4.2, §4.4.2, §5.1 and §5.3, which cover three machines."""
    printed = published("platform")
    systems = [machine["machine"] for machine in printed["machines"]]
    times: list[Row] = []
    for row in printed["time_to_accuracy"]:
        first, *others = ((name, row[name]) for name in systems)
        relative = {f"{name}, % of {first[0]}": None if t is None else 100 * t / first[1] for name, t in others}
        target = {"table": row["table"], "rate": row["rate"], "target %": f"{row['target']:g}"}
        times.append({**target, **{f"minutes {name}": row[name] for name in systems}, **relative})
    return {
        "published_machines": printed["machines"],
        "published_time_to_accuracy": times,
        "published_accuracy": printed["accuracy"],
        "published_evaluation_by_beam_width": printed["beam_widths"],
    }


class TimeLimit(pl.Callback):
    """Ends training after the first validation that finishes past the time limit."""

    def __init__(self, minutes: float) -> None:
        self.seconds = 60 * minutes
        self.began = 0.0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.began = time.perf_counter()

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        over = time.perf_counter() - self.began >= self.seconds
        # if one rank stopped alone, the other ranks would wait for its gradients
        trainer.should_stop |= trainer.strategy.reduce_boolean_decision(over, all=False)


class TimedTrainingRun(TrainingRun):
    """Trains and evaluates a run. The training ends after `benchmark.minutes`, if that key is set."""

    def callbacks(self) -> list[pl.Callback]:
        minutes = self.cfg.benchmark.minutes
        return [*super().callbacks(), *([] if minutes is None else [TimeLimit(minutes)])]


@entry("benchmarks")
def main(cfg: DictConfig) -> None:
    """Run one rank of a training from the beginning. An earlier attempt is not continued; its folder is renamed."""
    silence_lightning()
    with StopRequest() as stop:
        record, task, data = set_up(cfg)
        if not rank():
            record.keep_previous()
        with record:
            TimedTrainingRun(cfg, device_count(cfg), record, task, data, stop, None).run()

"""One machine at the training of one model: throughput, utilisation, time to accuracy, price (Baunsgaard2020 §4)."""

import copy
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import psutil
import torch
from omegaconf import DictConfig, OmegaConf, open_dict

from asr_ablations.experiment.run import set_up
from asr_ablations.runs.folder import Run
from asr_ablations.runs.layout import CONFIG
from asr_ablations.runs.process import command, wait_for
from asr_ablations.runs.records import read_run
from asr_ablations.runs.status import why_unfinished
from asr_ablations.tools.checks import is_number, is_whole, number
from asr_ablations.training.contracts import Decoder
from asr_benchmarks.platform import tables as platform_plots
from asr_benchmarks.platform import tables as platform_tables
from asr_benchmarks.platform.beam_widths import by_beam_width
from asr_benchmarks.tables import Result, Table, published
from asr_benchmarks.timing import check_counts, noise_notes
from asr_verdicts.config import ranks
from asr_verdicts.errors import choices
from asr_verdicts.files import write
from asr_verdicts.metrics import METRICS
from asr_verdicts.record import Record

SCRIPT = Path(__file__).with_name("timed_training.py")
RELATIVE = {"time_to_accuracy": ["minutes"], "throughput": ["R"]}
"""Columns that are also shown relative to the first machine where several stand together (Baunsgaard2020 table 4)."""

RATES = tuple(name for name, metric in METRICS.items() if metric.is_rate)


class TrainingFailedError(Exception):
    """The training did not finish; its process has printed the reason on the standard error."""

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
    """Train the config's model once, and tabulate throughput, phases, utilisation, accuracy, time to accuracy,
    evaluation by beam width and price, beside what Baunsgaard2020 §5 printed. The run lies in `training` in the
    benchmark's own folder.

    Raises UsageError for values out of range, TrainingFailedError if the training does not finish.
    """
    _check(minutes, targets, beam_widths, utterances, repeats, price)
    run = read_run(_train(cfg, minutes))
    throughput = platform_tables.throughput(run)
    reached = platform_tables.time_to_accuracy(run, targets)
    evaluated = by_beam_width(run.folder, decoder, beam_widths, utterances, repeats)
    return Result(
        figures=platform_tables.figures(run),
        tables={
            "throughput": throughput,
            "phases": platform_tables.phases(run),
            "utilisation": platform_tables.utilisation(run),
            "time_to_accuracy": reached,
            "accuracy": platform_tables.accuracy(run),
            "evaluation_by_beam_width": evaluated.rows,
            "price": platform_tables.price(run, price),
            **published_tables(),
        },
        notes=[
            *_notes(run, minutes, reached),
            f"evaluation by beam width: {evaluated.decoded}; a search takes longer where a model is unsure",
            *noise_notes(evaluated.timings),
        ],
        plots=platform_plots.plots(run, throughput, reached, evaluated.rows),
        relative=RELATIVE,
        machine=_memory(),
    )


def _check(
    minutes: float | None,
    targets: Mapping[str, Sequence[float]],
    beam_widths: Sequence[int],
    utterances: int | None,
    repeats: int,
    price: Mapping[str, float | None],
) -> None:
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
        if part not in platform_tables.PARTS:
            raise choices("benchmark.price", part, tuple(platform_tables.PARTS))
        if amount is not None:
            number(f"benchmark.price.{part}", amount, least=0, also="null if unknown")


def _train(cfg: DictConfig, minutes: float | None) -> Path:
    """Train in processes of its own, and return the folder of the finished run."""
    own, folder = copy.deepcopy(cfg), Run(cfg).folder
    with open_dict(own):
        own.benchmark = {"minutes": minutes}
        own.outputs, own.sweep = str(folder.resolve()), "training"
        own.overrides = [override for override in cfg.overrides if not override.lstrip("+").startswith("benchmark")]
    run = set_up(own).record.folder  # raises for wrong values here, where the message is one line
    run.parent.mkdir(parents=True, exist_ok=True)
    config = run.parent / CONFIG
    write(config, OmegaConf.to_yaml(own, resolve=True))
    code = wait_for(command(SCRIPT, config, ranks(own)))
    if (reason := why_unfinished(run)) or code:
        raise TrainingFailedError(f"the training: {reason or 'ended early'}", code or 1)
    return run


def _memory() -> dict[str, object]:
    """Memory of the machine and of each GPU."""
    sizes = [torch.cuda.get_device_properties(i).total_memory / 2**30 for i in range(torch.cuda.device_count())]
    gpus = {"GPU memory": ", ".join(f"{size:.0f} GiB" for size in sizes)} if sizes else {}
    return {"memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB", **gpus}


def _notes(run: Record, minutes: float | None, reached: Sequence[platform_tables.TargetRow]) -> list[str]:
    spent, epochs = run.summary.seconds["train"] / 60, run.summary.epochs
    limit = f"max_epochs={run.config['max_epochs']}" if minutes is None else f"benchmark.minutes={minutes:g}"
    lines = [
        f"epochs trained in {spent:.3g} minutes, with {limit}: {epochs}; {run.folder.parent.name}/{run.folder.name}",
        "R: hours of audio trained per second; time to accuracy: median over three validations, from the start",
    ]
    if (count := run.summary.ranks or 1) > 1:
        lines.append(f"CPU, memory and waiting are those of the first of {count} ranks; GPUs are all of them")
    if missed := [f"{row['rate']} {row['target %']} %" for row in reached if row["minutes"] is None]:
        lines.append(f"not reached: {', '.join(missed)}")
    return lines


def published_tables() -> dict[str, Table]:
    """The tables of Baunsgaard2020 §4.2, §4.4.2, §5.1 and §5.3 on its three machines."""
    printed = published("platform")
    systems = [machine["machine"] for machine in printed["machines"]]
    times: list[dict[str, object]] = []
    for row in printed["time_to_accuracy"]:
        first = row[systems[0]]
        target = {"table": row["table"], "rate": row["rate"], "target %": f"{row['target']:g}"}
        minutes = {f"minutes {name}": row[name] for name in systems}
        relative = {
            f"{name}, % of {systems[0]}": None if row[name] is None else 100 * row[name] / first for name in systems[1:]
        }
        times.append({**target, **minutes, **relative})
    return {
        "published_machines": printed["machines"],
        "published_time_to_accuracy": times,
        "published_accuracy": printed["accuracy"],
        "published_evaluation_by_beam_width": printed["beam_widths"],
    }

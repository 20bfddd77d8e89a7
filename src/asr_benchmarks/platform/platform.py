"""One machine at the training of one model: throughput, utilisation, time to accuracy, price (papers/004)."""

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import torch
from omegaconf import DictConfig, OmegaConf, open_dict

from asr_ablations.experiment.run import set_up
from asr_ablations.runs.folder import Run
from asr_ablations.runs.identity import ranks
from asr_ablations.runs.layout import CONFIG
from asr_ablations.runs.process import command, wait_for
from asr_ablations.runs.records import read_run
from asr_ablations.runs.status import why_unfinished
from asr_ablations.tools.errors import choices
from asr_ablations.tools.files import write
from asr_benchmarks.platform import plots as platform_plots
from asr_benchmarks.platform import tables as platform_tables
from asr_benchmarks.platform.beam_widths import by_beam_width
from asr_benchmarks.published import published
from asr_benchmarks.timing import check, noise

SCRIPT = Path(__file__).with_name("timed_training.py")
RELATIVE = {"time_to_accuracy": ["minutes"], "throughput": ["R"]}
"""What is told relative to the first machine where several stand side by side (papers/004 table 4)."""


class TrainingFailedError(Exception):
    """The training did not come to its end, and has told why on the standard error."""

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
    decoder: Any,
    price: Mapping[str, float | None],
) -> dict[str, Any]:
    """Tables of one training of the config, whose run lies in `training` in the benchmark's own folder: throughput,
    phases, utilisation, accuracy, time to accuracy, evaluation by beam width, price; and what papers/004 printed.

    Raises UsageError for values out of range, TrainingFailedError where the training did not come to its end.
    """
    _check(minutes, targets, beam_widths, utterances, repeats, price)
    run = read_run(_train(cfg, minutes))
    reached = platform_tables.time_to_accuracy(run, targets)
    evaluated, timings, decoded = by_beam_width(run.folder, decoder, beam_widths, utterances, repeats)
    tables = {
        "throughput": platform_tables.throughput(run),
        "phases": platform_tables.phases(run),
        "utilisation": platform_tables.utilisation(run),
        "time_to_accuracy": reached,
        "accuracy": platform_tables.accuracy(run),
        "evaluation_by_beam_width": evaluated,
        "price": platform_tables.price(run, price),
    }
    notes = [
        *_notes(run, minutes, reached),
        f"evaluation by beam width: {decoded}; a search takes longer where a model is unsure",
        *noise(timings),
    ]
    plots = platform_plots.plots(run, tables)
    return {
        **platform_tables.figures(run), **tables, **_published(), "notes": notes, "plots": plots, "relative": RELATIVE,
        "machine": _memory(),
    }  # fmt: skip


def _check(
    minutes: float | None,
    targets: Mapping[str, Sequence[float]],
    beam_widths: Sequence[int],
    utterances: int | None,
    repeats: int,
    price: Mapping[str, float | None],
) -> None:
    check(repeats=repeats, utterances=1 if utterances is None else utterances)
    if minutes is not None and not (_number(minutes) and minutes > 0):
        raise choices("benchmark.minutes", minutes, "a number above 0, or null for max_epochs")
    for rate, values in targets.items():
        if rate not in ("wer", "cer"):
            raise choices("benchmark.targets", rate, ("wer", "cer"))
        if not all(_number(value) and value >= 0 for value in values):
            raise choices(f"benchmark.targets.{rate}", list(values), "rates, 0 or more; 0.2 is 20 %")
    good = all(isinstance(width, int) and not isinstance(width, bool) and width >= 1 for width in beam_widths)
    if not good or not beam_widths or len(set(beam_widths)) < len(beam_widths):
        raise choices("benchmark.beam_widths", list(beam_widths), "different whole numbers, 1 or more")
    for part, amount in price.items():
        if part not in platform_tables.PARTS:
            raise choices("benchmark.price", part, tuple(platform_tables.PARTS))
        if amount is not None and not (_number(amount) and amount >= 0):
            raise choices(f"benchmark.price.{part}", amount, "a number, 0 or more, or null for not known")


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _train(cfg: DictConfig, minutes: float | None) -> Path:
    """The folder of the finished run."""
    own, folder = copy.deepcopy(cfg), Run(cfg).folder
    with open_dict(own):
        own.benchmark = {"minutes": minutes}
        own.outputs, own.sweep = str(folder.resolve()), "training"
        own.overrides = [told for told in cfg.overrides if not told.lstrip("+").startswith("benchmark")]
    run = set_up(own).record.folder  # wrong values are told here, in one line
    run.parent.mkdir(parents=True, exist_ok=True)
    config = run.parent / CONFIG
    write(config, OmegaConf.to_yaml(own, resolve=True))
    code = wait_for(command(SCRIPT, config, ranks(own)))
    if (reason := why_unfinished(run)) or code:
        raise TrainingFailedError(f"the training: {reason or 'ended early'}", code or 1)
    return run


def _memory() -> dict[str, str]:
    """Of the machine, and of each GPU."""
    gpus = [torch.cuda.get_device_properties(i).total_memory / 2**30 for i in range(torch.cuda.device_count())]
    told = {"memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB"}
    return {**told, "GPU memory": ", ".join(f"{one:.0f} GiB" for one in gpus)} if gpus else told


def _notes(run: Any, minutes: float | None, reached: Sequence[Mapping[str, Any]]) -> list[str]:
    spent, epochs = run.summary["seconds"]["train"] / 60, run.summary["epochs"]
    budget = f"max_epochs={run.config['max_epochs']}" if minutes is None else f"benchmark.minutes={minutes:g}"
    lines = [
        f"epochs trained in {spent:.3g} minutes, with {budget}: {epochs}; {run.folder.parent.name}/{run.folder.name}"
    ]
    lines.append("R: hours of audio trained a second; time to accuracy: median over three validations, from the start")
    if (together := run.summary["ranks"]) > 1:
        lines.append(f"CPU, memory and waiting are those of the first of {together} ranks; GPUs are all of them")
    if unmet := [f"{row['rate']} {row['target %']} %" for row in reached if row["minutes"] is None]:
        lines.append(f"not reached: {', '.join(unmet)}")
    return lines


def _published() -> dict[str, list[dict[str, Any]]]:
    """papers/004's three machines, as tables of their own."""
    told = published("platform")
    systems = [machine["machine"] for machine in told["machines"]]
    times = []
    for row in told["time_to_accuracy"]:
        times.append({"table": row["table"], "rate": row["rate"], "target %": f"{row['target']:g}"})
        for name in systems:
            times[-1][f"minutes {name}"] = row[name]
        for name in systems[1:]:
            times[-1][f"{name}, % of {systems[0]}"] = None if row[name] is None else 100 * row[name] / row[systems[0]]
    return {
        "published_machines": told["machines"],
        "published_time_to_accuracy": times,
        "published_evaluation_by_beam_width": told["beam_widths"],
    }

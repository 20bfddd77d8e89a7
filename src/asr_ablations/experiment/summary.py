"""Summarise, log and print the results of a run."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytorch_lightning as pl
import torch
from omegaconf import DictConfig
from pytorch_lightning.loggers import Logger
from rich.table import Column, Table

from asr_ablations.data.datamodule import SpeechData
from asr_ablations.runs.folder import Run
from asr_ablations.runs.layout import ALONE, METRICS
from asr_ablations.runs.process import LAUNCHED
from asr_ablations.runs.reader import read_metrics
from asr_ablations.runs.sweep_history import PlannedRun
from asr_ablations.tools.files import typed
from asr_ablations.tools.machine import peak_memory
from asr_ablations.training.assembly import STREAMS, get_seed
from asr_ablations.training.callbacks.throughput import Throughput
from asr_ablations.training.contracts import LoggerOfTables, LoggerWithExitCode, LoggerWithSummary, Recording
from asr_ablations.training.task import CTCTask
from asr_verdicts.record import SetResult, Summary, UtteranceRow, rates
from asr_verdicts.terminal import console

EXAMPLES = 10
"""Transcripts of each test set that go to a logger with tables."""
SHOWN_EXAMPLES = 3
"""Transcripts of the first test set that are printed."""


def summarise(
    cfg: DictConfig,
    record: Run,
    fitter: pl.Trainer,
    task: CTCTask,
    data: SpeechData,
    rows: Sequence[UtteranceRow],
    losses: Mapping[str, float | None],
    throughput: Throughput,
) -> Summary:
    """Build summary.json, in seconds and bytes. losses: mean nats of each set's utterances."""
    sets = dict.fromkeys(row["set"] for row in rows)
    on_gpu = fitter.strategy.root_device.type == "cuda"
    return Summary(
        id=record.id,
        name=record.name,
        sets={
            name: SetResult(**vars(rates([row for row in rows if row["set"] == name])), loss=losses.get(name))
            for name in sets
        },
        test_sets=list(data.corpus.test),
        best_validation_wer=_best_validation_wer(record.folder, data.corpus.validation[0]),
        parameters=sum(p.numel() for p in task.model.parameters()),
        epochs=fitter.current_epoch,
        steps=fitter.global_step,
        train_utterances=len(data.sets["train"]),
        train_hours=float(data.sets["train"].durations.sum()) / 3600,
        left_out=data.left_out,
        precision=fitter.precision,
        seed_streams={name: get_seed(cfg, name) for name in STREAMS},
        ranks=fitter.world_size,
        launch_seconds=throughput.first_step - float(os.environ[LAUNCHED]) if LAUNCHED in os.environ else None,
        # device memory on a GPU, this process's memory on a CPU
        peak_memory_bytes=int(torch.cuda.max_memory_reserved()) if on_gpu else peak_memory(),
        seconds=record.phases,
        audio_hours_seen=throughput.audio_hours,
        train_batch_seconds=throughput.train_seconds,
        audio_hours_per_second=throughput.rate,
    )


def _best_validation_wer(folder: Path, validation_set: str) -> float | None:
    """Return the lowest WER (fraction) of the first validation set, or None if none is recorded."""
    if not (folder / METRICS).exists():
        return None
    rates = (row.get(f"validation/{validation_set}/wer") for row in read_metrics(folder))
    return min((rate for rate in rates if rate is not None), default=None)


def log_result(logger: Logger | None, summary: Summary, rows: Sequence[UtteranceRow]) -> None:
    """Log the final rates and losses, sizes and times, and example transcripts if the logger shows tables."""
    if logger is None:
        return
    for name in summary.sets:
        final = {key: summary.value(name, key) for key in ("wer", "cer", "cer_longer", "loss")}
        logger.log_metrics({f"final/{name}/{key}": value for key, value in final.items() if value is not None})
    if isinstance(logger, LoggerWithSummary):
        values = {
            "parameters": summary.parameters,
            "peak_memory_bytes": summary.peak_memory_bytes,
            **{f"seconds/{name}": seconds for name, seconds in summary.seconds.items()},
        }
        logger.log_summary({name: value for name, value in values.items() if value is not None})
    if isinstance(logger, LoggerOfTables):
        examples = [row for name in summary.test_sets for row in [r for r in rows if r["set"] == name][:EXAMPLES]]
        logger.log_table(
            "examples",
            columns=["set", "id", "reference", "hypothesis"],
            data=[[row["set"], row["id"], row["reference"], row["hypothesis"]] for row in examples],
            recordings=[Recording(row["audio"], row["offset"], row["duration"], row["channel"]) for row in examples],
        )


def log_planned(logger: Logger | None, planned: PlannedRun | None) -> None:
    """Log the run's part in the sweep's plan, if the logger keeps values of a whole run."""
    if planned is not None and isinstance(logger, LoggerWithSummary):
        logger.log_summary({f"until/{name}": value for name, value in planned.as_json().items()})


def finish(logger: Logger | None, exit_code: int) -> None:
    """End the logger with the run's exit code, if it takes one."""
    if isinstance(logger, LoggerWithExitCode):
        logger.finish(exit_code)


def print_run(folder: Path, summary: Summary, rows: Sequence[UtteranceRow]) -> None:
    """Print the error rates of every set, a few transcripts, the time, and what to do next."""
    terminal = console(soft_wrap=True)
    terminal.print(_table(summary))
    first_set = [row for row in rows if row["set"] == summary.test_sets[0]]
    for row in first_set[:: max(1, len(first_set) // SHOWN_EXAMPLES)][:SHOWN_EXAMPLES]:
        terminal.print(f"reference   {row['reference']}\nhypothesis  {row['hypothesis']}\n", markup=False)
    seconds, speed = summary.seconds, summary.audio_hours_per_second or 0.0
    terminal.print(
        f"trained {seconds['train']:.0f} s, evaluated {seconds['evaluate']:.0f} s, "
        f"{3600 * speed:.0f} s of audio per second in the training step\n"
        f"run folder  {folder}\n"
        f"look at it  {typed('compare', folder)}",
        markup=False,
    )
    if terminal.is_terminal and folder.parent.name == ALONE:
        terminal.print(f"try next    {typed('train')} -m rnn=lstm,gru precision=16", markup=False)


def _table(summary: Summary) -> Table:
    numbers = [Column(name, justify="right") for name in ("utterances", "words", "WER %", "CER %", "S", "D", "I")]
    table = Table("set", *numbers, title=summary.name, title_justify="left")
    for name, final in summary.sets.items():
        sizes = [str(size) for size in (final.utterances, final.words)]
        percents = [f"{100 * (rate or 0.0):.2f}" for rate in (final.wer, final.cer)]
        counts = [str(count) for count in (final.substitutions, final.deletions, final.insertions)]
        table.add_row(name, *sizes, *percents, *counts)
    return table

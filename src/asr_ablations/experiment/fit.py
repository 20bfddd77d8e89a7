"""Train and evaluate one run, and write, log and print its results."""

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import cast

import pytorch_lightning as pl
import torch
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.loggers import Logger
from rich.table import Column, Table

from asr_ablations.config.build import build
from asr_ablations.data.datamodule import SpeechData
from asr_ablations.experiment.utterances import Transcribed, transcribe_set
from asr_ablations.runs import layout
from asr_ablations.runs.folder import Run
from asr_ablations.runs.process import LAUNCHED
from asr_ablations.runs.reader import read_metrics
from asr_ablations.runs.status import DIVERGED, Diverged, Pruned
from asr_ablations.runs.sweep_history import PlannedRun, planned_run
from asr_ablations.tools.files import typed
from asr_ablations.tools.machine import awake, peak_memory, rank
from asr_ablations.tools.typed_json import as_json
from asr_ablations.training.assembly import STREAMS, get_seed, trainer
from asr_ablations.training.auxiliary import count_parameters
from asr_ablations.training.callbacks.largest_batch import LargestBatch
from asr_ablations.training.callbacks.progress import ProgressBar
from asr_ablations.training.callbacks.tables import ExampleTranscripts, MetricsTable, StepLosses
from asr_ablations.training.callbacks.utilisation import Throughput, Utilisation
from asr_ablations.training.checkpoints import LastCheckpoint, RestoreState, best_checkpoint
from asr_ablations.training.contracts import (
    Checkpoint,
    LoggerOfTables,
    LoggerWithExitCode,
    LoggerWithSummary,
    Recording,
)
from asr_ablations.training.ddp import gather_from_ranks
from asr_ablations.training.model_summary import draw_model
from asr_ablations.training.precision import notice
from asr_ablations.training.signals import StopRequest
from asr_ablations.training.task import CTCTask
from asr_verdicts.config import Config
from asr_verdicts.files import write, write_csv, write_json
from asr_verdicts.record import SetResult, Summary, UtteranceRow, rates
from asr_verdicts.terminal import bar, console

LOGGED = 10
"""Number of example transcripts per test set that are logged to loggers with tables."""
PRINTED = 3
"""Number of example transcripts that are printed, all from the first test set."""


class TrainingRun:
    """The training and evaluation of one run, with its Trainer, callbacks and loggers.

    checkpoint: the last checkpoint of an earlier attempt at the run, or None to start from scratch.
    """

    def __init__(
        self,
        cfg: DictConfig,
        devices: int,
        record: Run,
        task: CTCTask,
        data: SpeechData,
        stop: StopRequest,
        checkpoint: Checkpoint | None,
    ) -> None:
        self.cfg, self.record, self.task, self.data, self.stop = cfg, record, task, data, stop
        if (message := notice(cfg.precision, cfg.tf32, devices)) and not rank():
            print(message)
        if not rank():  # before the loggers are built, because loggers read these files
            write_json(record.folder / layout.DATA, data.describe())
            write(record.folder / layout.MODEL, draw_model(task.model, task.features.size))
        self.from_path = layout.last_checkpoint(record.folder) if checkpoint is not None else None
        self.planned = planned_run(record.folder, cast(Config, OmegaConf.to_container(cfg, resolve=True)))
        self.table = MetricsTable(record.folder, checkpoint["run"]["rows"] if checkpoint else 0)
        self.logger: Logger | None = None if rank() else build(cfg.logger)(record)
        self.throughput, self.utilisation = Throughput(), Utilisation(record.folder, cfg.utilisation_seconds)
        self.last = LastCheckpoint(record.checkpoints, cfg.checkpoint_minutes, stop, self._checkpoint_record)
        restore = RestoreState(checkpoint)
        loggers = [self.table, *([self.logger] if self.logger else [])]
        callbacks = [self.last, *self.callbacks(), restore]
        self.fitter = trainer(cfg, devices, loggers, callbacks, configured=task.callbacks, folder=record.folder)

    def callbacks(self) -> list[pl.Callback]:
        """Return all callbacks except the first (LastCheckpoint) and the last (RestoreState)."""
        cfg, folder, first = self.cfg, self.record.folder, self.data.corpus.validation[0]
        every, count = cfg.transcripts.every, cfg.transcripts.utterances
        return [
            # this callback is first, so that its time counts as part of a step and not as waiting for data
            *([] if every is None else [ExampleTranscripts(folder, every, count)]),
            self.throughput,
            self.utilisation,
            best_checkpoint(self.record.checkpoints, first, cfg.best),
            StepLosses(folder),
            ProgressBar(cfg.progress, folder),
            LargestBatch(),
            *([] if cfg.pruning is None else [build(cfg.pruning)(folder, f"validation/{first}/wer")]),
        ]

    def run(self) -> None:
        """Train the model, evaluate it and write the results.

        Raise Pruned if the run is not worth continuing, and Diverged if its loss is no longer finite.
        """
        exit_code = 1
        try:
            self._train()
            self._evaluate()
            exit_code = 0
        except (Pruned, Diverged) as ended:
            self.utilisation.close()
            self.record.phases["train"] = self.last.state_dict()["seconds"]
            if not rank():
                write_json(self.record.folder / layout.SUMMARY, as_json(self._summarise({})))
            if isinstance(ended, Pruned):
                exit_code = 0
                if not rank():
                    print(f"pruned: {ended}\nrun folder  {self.record.folder}", flush=True)
            elif self.logger is not None:
                self.logger.log_metrics({DIVERGED: ended.step})
            raise
        finally:
            self.utilisation.close()
            if isinstance(self.logger, LoggerWithExitCode):
                self.logger.finish(exit_code)

    def _train(self) -> None:
        log_planned(self.logger, self.planned)
        self.fitter.fit(self.task, self.data, ckpt_path=self.from_path)
        self.record.phases["train"] = self.last.seconds
        for received in gather_from_ranks(self.stop.received):  # a stop request must not wait for the evaluation
            if received:
                self.stop.raise_stopped(received)

    def _evaluate(self) -> None:
        started = awake()
        with self.utilisation.during("evaluate"):
            self.task.to(self.fitter.strategy.root_device)
            names = dict.fromkeys([*self.data.corpus.validation, *self.data.corpus.test])
            precision = self.fitter.precision_plugin.forward_context
            share = sum(len(self.data.sets[name]) for name in names) / self.fitter.world_size
            shown = bar("evaluating", share) if self.cfg.progress and not rank() else nullcontext(lambda done: None)
            with shown as advance:
                sets = {name: transcribe_set(self.task, self.data, name, precision, advance) for name in names}
        self.record.phases["evaluate"] = awake() - started
        self.utilisation.close()
        if rank():
            return
        rows = [row for transcribed in sets.values() for row in transcribed.rows]
        summary = replace(self._summarise(sets), metrics=dict(sorted(self.last.metrics.items())))
        write_csv(self.record.folder / layout.UTTERANCES, rows)
        write_json(self.record.folder / layout.SUMMARY, as_json(summary))
        log_result(self.logger, summary, rows)
        print_run(self.record.folder, summary, rows)

    def _summarise(self, sets: Mapping[str, Transcribed]) -> Summary:
        """Return the values for summary.json. Sets without utterances are omitted."""
        self.table.save()
        has_metrics = (self.record.folder / layout.METRICS).exists()
        rows = read_metrics(self.record.folder) if has_metrics else []
        wers, losses = (self._list_validations(rows, name) for name in ("wer", "loss"))
        first_step, on_gpu = self.throughput.first_step, self.fitter.strategy.root_device.type == "cuda"
        return Summary(
            id=self.record.id,
            name=self.record.name,
            sets={name: SetResult(**vars(rates(s.rows)), loss=s.loss) for name, s in sets.items() if s.rows},
            test_sets=list(self.data.corpus.test),
            best_validation_wer=min(wers, default=None),
            validation_losses=losses,
            parameters=count_parameters(self.task.model),
            epochs=self.fitter.current_epoch,
            steps=self.fitter.global_step,
            train_utterances=len(self.data.sets["train"]),
            train_hours=float(self.data.sets["train"].durations.sum()) / 3600,
            left_out=self.data.left_out,
            precision=self.fitter.precision,
            seed_streams={name: get_seed(self.cfg, name) for name in STREAMS},
            ranks=self.fitter.world_size,
            launch_seconds=first_step - float(os.environ[LAUNCHED]) if LAUNCHED in os.environ else None,
            # the device's memory if the run uses a GPU, otherwise the memory of this process
            peak_memory_bytes=int(torch.cuda.max_memory_reserved()) if on_gpu else peak_memory(),
            seconds=self.record.phases,
            audio_hours_seen=self.throughput.audio_hours,
            train_batch_seconds=self.throughput.train_seconds,
            audio_hours_per_second=self.throughput.rate,
            phase_seconds=self.utilisation.phases,
            processor_seconds=self.utilisation.processor_seconds,
            until=None if self.planned is None else asdict(self.planned),
        )

    def _list_validations(self, rows: Sequence[Mapping[str, float | None]], name: str) -> list[float]:
        """Return the finite values of all validations on the first validation set. rows: rows of metrics.csv."""
        values = (row.get(f"validation/{self.data.corpus.validation[0]}/{name}") for row in rows)
        return [value for value in values if value is not None and math.isfinite(value)]

    def _checkpoint_record(self) -> dict[str, object]:
        """Return a checkpoint's data about the run: identity, config, and number of rows in metrics.csv."""
        return {
            "id": self.record.id,
            "fingerprint": self.record.fingerprint,
            "rows": self.table.rows,
            "config": OmegaConf.to_container(self.record.cfg, resolve=True),
        }


def log_result(logger: Logger | None, summary: Summary, rows: Sequence[UtteranceRow]) -> None:
    """Log final error rates and losses. If the logger supports it, also log times, memory and example transcripts."""
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
        examples = [row for name in summary.test_sets for row in [r for r in rows if r["set"] == name][:LOGGED]]
        logger.log_table(
            "examples",
            columns=["set", "id", "reference", "hypothesis"],
            data=[[row["set"], row["id"], row["reference"], row["hypothesis"]] for row in examples],
            recordings=[Recording(row["audio"], row["offset"], row["duration"], row["channel"]) for row in examples],
        )


def log_planned(logger: Logger | None, planned: PlannedRun | None) -> None:
    """Log which planned look of the sweep includes this run, if the logger stores values of whole runs."""
    if planned is not None and isinstance(logger, LoggerWithSummary):
        logger.log_summary({f"until/{name}": value for name, value in asdict(planned).items()})


def print_run(folder: Path, summary: Summary, rows: Sequence[UtteranceRow]) -> None:
    """Print the error rates of every set, a few transcripts, the time taken, and the next command to type."""
    terminal = console(soft_wrap=True)
    terminal.print(_table(summary))
    first_set = [row for row in rows if row["set"] == summary.test_sets[0]]
    for row in first_set[:: max(1, len(first_set) // PRINTED)][:PRINTED]:
        terminal.print(f"reference   {row['reference']}\nhypothesis  {row['hypothesis']}\n", markup=False)
    seconds, speed = summary.seconds, summary.audio_hours_per_second or 0.0
    terminal.print(
        f"trained {seconds['train']:.0f} s, evaluated {seconds['evaluate']:.0f} s, "
        f"{3600 * speed:.0f} s of audio per second in the training step\n"
        f"run folder  {folder}\n"
        f"look at it  {typed('compare', folder)}",
        markup=False,
    )
    if terminal.is_terminal and folder.parent.name == layout.ALONE:
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

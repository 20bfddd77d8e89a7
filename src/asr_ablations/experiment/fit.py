"""Train and evaluate one run, and write the results into its folder."""

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import cast

import pytorch_lightning as pl
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.loggers import Logger

from asr_ablations.config.build import build
from asr_ablations.data.datamodule import SpeechData
from asr_ablations.experiment.summary import finish, log_planned, log_result, print_run, summarise
from asr_ablations.experiment.utterances import transcribe_set
from asr_ablations.runs import layout
from asr_ablations.runs.folder import Run
from asr_ablations.runs.status import DIVERGED, Diverged, Pruned
from asr_ablations.runs.sweep_history import planned_run
from asr_ablations.tools.machine import rank
from asr_ablations.tools.typed_json import as_json
from asr_ablations.training.assembly import trainer
from asr_ablations.training.callbacks.largest_batch import LargestBatch
from asr_ablations.training.callbacks.metrics_table import MetricsTable
from asr_ablations.training.callbacks.progress import ProgressBar
from asr_ablations.training.callbacks.resume import LastCheckpoint, RestoreState
from asr_ablations.training.callbacks.step_losses import StepLosses
from asr_ablations.training.callbacks.throughput import Throughput
from asr_ablations.training.callbacks.transcripts import ExampleTranscripts
from asr_ablations.training.callbacks.utilisation import Utilisation
from asr_ablations.training.checkpoints import best_checkpoint
from asr_ablations.training.contracts import Checkpoint
from asr_ablations.training.ddp import gather_from_ranks
from asr_ablations.training.model_summary import draw_model
from asr_ablations.training.precision import notice
from asr_ablations.training.signals import StopRequest
from asr_ablations.training.task import CTCTask
from asr_verdicts.config import Config
from asr_verdicts.files import write, write_csv, write_json
from asr_verdicts.record import Summary, UtteranceRow
from asr_verdicts.terminal import bar


class TrainingRun:
    """A run's Trainer, callbacks and loggers. checkpoint: from an earlier attempt, to continue from."""

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
        if not rank():  # before the loggers and the table, which read these files
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
        """Build all callbacks except the first (LastCheckpoint) and the last (RestoreState)."""
        cfg, folder, first = self.cfg, self.record.folder, self.data.corpus.validation[0]
        every, count = cfg.transcripts.every, cfg.transcripts.utterances
        return [
            # before the others: its time counts as part of a step, not as waiting for data
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
        """Train, evaluate, record. Raise Pruned if the run is not worth continuing, Diverged if it cannot continue."""
        exit_code = 1
        try:
            self._train()
            self._evaluate()
            exit_code = 0
        except (Pruned, Diverged) as ended:
            self.utilisation.close()
            self.record.phases["train"] = self.last.state_dict()["seconds"]
            if not rank():
                write_json(self.record.folder / layout.SUMMARY, as_json(self._summary([], {})))
            if isinstance(ended, Pruned):
                exit_code = 0
                if not rank():
                    print(f"pruned: {ended}\nrun folder  {self.record.folder}", flush=True)
            elif self.logger is not None:
                self.logger.log_metrics({DIVERGED: ended.step})
            raise
        finally:
            self.utilisation.close()
            finish(self.logger, exit_code)

    def _train(self) -> None:
        log_planned(self.logger, self.planned)
        self.fitter.fit(self.task, self.data, ckpt_path=self.from_path)
        self.record.phases["train"] = self.last.seconds
        for received in gather_from_ranks(self.stop.received):  # stops before evaluation, which may take long
            if received:
                self.stop.raise_stopped(received)

    def _evaluate(self) -> None:
        started = time.perf_counter()
        with self.utilisation.during("evaluate"):
            self.task.to(self.fitter.strategy.root_device)
            names = dict.fromkeys([*self.data.corpus.validation, *self.data.corpus.test])
            precision = self.fitter.precision_plugin.forward_context
            share = sum(len(self.data.sets[name]) for name in names) / self.fitter.world_size
            shown = bar("evaluating", share) if self.cfg.progress and not rank() else nullcontext(lambda done: None)
            with shown as advance:
                sets = {name: transcribe_set(self.task, self.data, name, precision, advance) for name in names}
        self.record.phases["evaluate"] = time.perf_counter() - started
        self.utilisation.close()
        if rank():
            return
        rows = [row for transcribed in sets.values() for row in transcribed.rows]
        summary = self._summary(rows, {name: transcribed.loss for name, transcribed in sets.items()})
        summary = replace(summary, metrics=dict(sorted(self.last.metrics.items())))
        write_csv(self.record.folder / layout.UTTERANCES, rows)
        write_json(self.record.folder / layout.SUMMARY, as_json(summary))
        log_result(self.logger, summary, rows)
        print_run(self.record.folder, summary, rows)

    def _summary(self, rows: Sequence[UtteranceRow], losses: Mapping[str, float | None]) -> Summary:
        self.table.save()  # the summary reads it
        summary = summarise(self.cfg, self.record, self.fitter, self.task, self.data, rows, losses, self.throughput)
        planned = None if self.planned is None else self.planned.as_json()
        return replace(summary, phase_seconds=self.utilisation.phases, until=planned)

    def _checkpoint_record(self) -> dict[str, object]:
        """Return the run's part of a checkpoint: what identifies the run, and the number of rows in its table."""
        return {
            "id": self.record.id,
            "fingerprint": self.record.fingerprint,
            "rows": self.table.rows,
            "config": OmegaConf.to_container(self.record.cfg, resolve=True),
        }

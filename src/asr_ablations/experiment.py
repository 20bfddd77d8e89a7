"""run(cfg): build → fit → evaluate → record."""

import logging
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loggers import CSVLogger

from asr_ablations.assembly import assemble, device_count, trainer
from asr_ablations.config import build, check
from asr_ablations.data.module import SpeechData
from asr_ablations.evaluation import rates, transcribe_set
from asr_ablations.metrics.finite import FiniteLoss
from asr_ablations.metrics.throughput import Throughput
from asr_ablations.metrics.utilisation import INTERVAL, Utilisation
from asr_ablations.report.progress import Progress
from asr_ablations.report.tables import print_run
from asr_ablations.run import Run, rank, write_csv, write_json
from asr_ablations.task import CTCTask

log = logging.getLogger(__name__)


def run(cfg: DictConfig) -> Path:
    """Train and evaluate one config; returns the run's folder. Raises UsageError for what the config gets wrong."""
    if cfg.sweep is None:
        cfg.sweep = "single"
    check(cfg)
    devices = device_count(cfg)
    if devices > 1 and "LOCAL_RANK" not in os.environ:
        return _under_torchrun(cfg, devices)
    quiet()
    record = Run(cfg)
    corpus = build(cfg.data)
    task, data = assemble(cfg, corpus)  # before the corpus is generated: a wrong value should not cost a minute
    corpus.prepare()
    data.setup()
    with record:
        _execute(cfg, devices, record, task, data)
    return record.folder


def _execute(cfg: DictConfig, devices: int, record: Run, task: CTCTask, data: SpeechData) -> None:
    if cfg.precision == 16 and not devices and not rank():
        print("precision=16 on a CPU is bfloat16; recurrent layers stay in float32, which is faster there")
    logger = None if rank() else build(cfg.logger)(record)
    utilisation = Utilisation(record.folder, INTERVAL)
    try:
        throughput = Throughput()
        checkpoints = ModelCheckpoint(
            dirpath=record.folder / "checkpoints",
            filename="best",
            monitor=f"validation/{data.corpus.validation[0]}/wer",
            enable_version_counter=False,
        )
        # save_last of the one above would save only with a new best
        last = ModelCheckpoint(dirpath=record.folder / "checkpoints", filename="last", enable_version_counter=False)
        loggers = [CSVLogger(save_dir=str(record.folder), name="", version=""), *([logger] if logger else [])]
        callbacks = [throughput, utilisation, FiniteLoss(), checkpoints, last, Progress(cfg.progress)]
        fitter = trainer(cfg, devices, loggers, callbacks)
        if not rank():
            write_json(record.folder / "data.json", data.describe())
        with _phase(record, "train"):
            _fit(fitter, task, data)
        if rank():
            utilisation.close()
            return
        with _phase(record, "evaluate"), utilisation.during("evaluate"):
            rows = _evaluate(fitter, task, data)
        utilisation.close()
        summary = _summary(cfg, record, fitter, task, data, rows, throughput)
        summary["phase_seconds"] = utilisation.phases
        write_csv(record.folder / "utterances.csv", rows)
        write_json(record.folder / "summary.json", summary)
        _log_result(logger, summary, rows)
    except BaseException:
        utilisation.close()
        _finish(logger, 1)
        raise
    _finish(logger, 0)
    print_run(record.folder, summary, rows)


def _fit(fitter: pl.Trainer, task: CTCTask, data: SpeechData) -> None:
    try:
        fitter.fit(task, data)
    except SystemExit as error:  # Lightning's answer to Ctrl-C: give back what it was, so that the record says so
        if isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise


def _evaluate(fitter: pl.Trainer, task: CTCTask, data: SpeechData) -> list[dict[str, Any]]:
    task.to(fitter.strategy.root_device)
    sets = [*data.corpus.validation, *data.corpus.test]
    precision = fitter.precision_plugin.forward_context
    return [row for name in dict.fromkeys(sets) for row in transcribe_set(task, data, name, precision)]


def _summary(
    cfg: DictConfig,
    record: Run,
    fitter: pl.Trainer,
    task: CTCTask,
    data: SpeechData,
    rows: list[dict[str, Any]],
    throughput: Throughput,
) -> dict[str, Any]:
    sets = dict.fromkeys(row["set"] for row in rows)
    best = fitter.checkpoint_callback.best_model_score  # type: ignore[union-attr]
    return {
        "id": record.id,
        "name": record.name,
        "sets": {name: rates([row for row in rows if row["set"] == name]) for name in sets},
        "test_sets": list(data.corpus.test),
        "best_validation_wer": None if best is None else float(best),
        "metrics": {key: float(value) for key, value in sorted(fitter.callback_metrics.items())},
        "parameters": sum(p.numel() for p in task.model.parameters()),
        "epochs": fitter.current_epoch,
        "steps": fitter.global_step,
        "train_utterances": len(data.sets["train"]),
        "train_hours": float(data.sets["train"].durations.sum()) / 3600,
        "left_out": data.left_out,
        "precision": fitter.precision,
        "seconds": record.phases,
        **throughput.totals(),
    }


def _log_result(logger: Any, summary: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Final rates for every logger, and example transcripts where the logger has tables."""
    if logger is None:
        return
    for name, found in summary["sets"].items():
        logger.log_metrics({f"final/{name}/{key}": found[key] for key in ("wer", "cer")})
    if hasattr(logger, "log_table"):
        examples = [row for name in summary["test_sets"] for row in [r for r in rows if r["set"] == name][:10]]
        columns = ["set", "id", "reference", "hypothesis"]
        logger.log_table("examples", columns=columns, data=[[row[c] for c in columns] for row in examples])


def _finish(logger: Any, exit_code: int) -> None:
    """W&B shows a crashed run as finished unless it is told otherwise."""
    if logger is not None and type(logger).__name__ == "WandbLogger":
        logger.experiment.finish(exit_code=exit_code)


def _under_torchrun(cfg: DictConfig, devices: int) -> Path:
    import subprocess

    from asr_ablations.sweep.arm import child_environment, command

    with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as file:
        file.write(OmegaConf.to_yaml(cfg, resolve=True))
    code = subprocess.run(
        command(Path(sys.argv[0]), Path(file.name), devices), env=child_environment(), check=False
    ).returncode
    Path(file.name).unlink()
    if code:
        sys.exit(code)
    return Run(cfg).folder


@contextmanager
def _phase(record: Run, name: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    record.phases[name] = time.perf_counter() - started


def quiet() -> None:
    """Silence what Lightning says of choices that are ours."""
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    for message in (
        ".*does not have many workers.*",  # audio is remembered after the first epoch
        ".*lr_scheduler.step.*before.*optimizer.step.*",  # a step whose 16-bit gradients overflowed is skipped
        ".*GPU available but not used.*",
        ".*Experiment logs directory .* exists.*",  # the record made the folder
        ".*smaller than the logging interval.*",  # epochs are logged too
        ".*resuming from a checkpoint that ended before the epoch ended.*",  # SpeechData has the loader's state
        ".*isinstance.treespec, LeafSpec.*",  # Lightning 2.6 under torch 2.11
    ):
        warnings.filterwarnings("ignore", message)

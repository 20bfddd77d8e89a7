"""run(cfg): build → fit → evaluate → record."""

import json
import logging
import os
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.callbacks import ModelCheckpoint

from asr_ablations.assembly import STREAMS, assemble, device_count, seed_of, trainer
from asr_ablations.checkpoints import LAST, GoOn, LastCheckpoint, StopRequest
from asr_ablations.config import build, check
from asr_ablations.data.module import SpeechData
from asr_ablations.evaluation import rates, transcribe_set
from asr_ablations.metrics.finite import FiniteLoss
from asr_ablations.metrics.table import MetricsTable, StepLosses
from asr_ablations.metrics.throughput import Throughput
from asr_ablations.metrics.utilisation import INTERVAL, Utilisation
from asr_ablations.precision import notice
from asr_ablations.report.progress import Progress
from asr_ablations.report.tables import print_finished, print_run
from asr_ablations.run import Pruned, Run, rank, ranks, read_status, write_csv, write_json
from asr_ablations.sweep.processes import LAUNCHED
from asr_ablations.task import CTCTask

log = logging.getLogger(__name__)
_has_trained = False


def run(cfg: DictConfig) -> Path:
    """Train and evaluate one config; returns the run's folder.

    What is finished is not trained again, what was interrupted or failed goes on from its last checkpoint. Raises
    UsageError for what the config gets wrong, ClaimedError where another process is at the same run.
    """
    check(cfg)
    devices = device_count(cfg)
    if ranks(cfg) > 1 and "LOCAL_RANK" not in os.environ:
        return _in_processes(cfg)
    quiet()
    stop = StopRequest()
    stop.listen()
    try:
        return _run(cfg, devices, stop)
    finally:
        stop.close()


def run_fresh(cfg: DictConfig) -> Path:
    """As `run`, and in a process of its own if this one has trained before, as joblib's have: nothing of one arm may
    reach the next.
    """
    global _has_trained
    if _has_trained:
        return _in_processes(cfg)
    _has_trained = True
    return run(cfg)


def _run(cfg: DictConfig, devices: int, stop: StopRequest) -> Path:
    record, task, data = prepare(cfg)
    status = record.status()
    if status == "done" and not cfg.force:
        if not rank():
            print_finished(record.folder)
        return record.folder
    if cfg.force and not rank():
        record.keep_previous()
    if not cfg.force and _was_pruned(record, cfg):
        return record.folder
    with record:
        checkpoint = None if cfg.force else _last_checkpoint(record)
        if checkpoint is not None:
            _as_many_threads(record)
        _execute(cfg, devices, record, task, data, stop, checkpoint)
    return record.folder


def prepare(cfg: DictConfig) -> tuple[Run, CTCTask, SpeechData]:
    """Everything up to the first step: the run that this config is, its task and its data."""
    if cfg.threads is not None:
        torch.set_num_threads(cfg.threads)
    corpus = build(cfg.data)
    task, data = assemble(cfg, corpus)  # before the corpus is generated: a wrong value should not cost a minute
    corpus.prepare()
    data.setup()
    return Run(cfg, data.fingerprint), task, data


def _was_pruned(record: Run, cfg: DictConfig) -> bool:
    """Whether it need not go on: it was pruned, and still may be."""
    told = read_status(record.folder) or {}
    if told.get("status") != "pruned" or build(cfg.pruning)(record.folder, "") is None:
        return False
    print(f"pruned already: {told['reason']}\nrun folder  {record.folder}\npruning=none goes on with it", flush=True)
    return True


def _last_checkpoint(record: Run) -> dict[str, Any] | None:
    """Where an earlier attempt at this run came to. One that cannot be read is put aside, and the run starts anew."""
    path = record.checkpoints / LAST
    if not path.exists():
        return None
    try:
        checkpoint: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        log.warning("%s cannot be read (%s): put aside, the run starts anew", path, error)
        if not rank():
            path.replace(path.with_suffix(".damaged"))
        return None
    if not rank():
        position = checkpoint["position"]
        print(f"goes on from epoch {position['epoch'] + 1}, batch {position['batches']}: {record.folder}", flush=True)
    return checkpoint


def _as_many_threads(record: Run) -> None:
    """As the run began with: another number would sum in another order, and change the last bits of every number."""
    threads = json.loads((record.folder / "environment.json").read_text(encoding="utf-8"))["hardware"]["threads"]
    if threads != torch.get_num_threads():
        print(f"with {threads} threads, as it began", flush=True)
        torch.set_num_threads(threads)


def _execute(
    cfg: DictConfig,
    devices: int,
    record: Run,
    task: CTCTask,
    data: SpeechData,
    stop: StopRequest,
    checkpoint: dict[str, Any] | None,
) -> None:
    if (told := notice(cfg.precision, cfg.tf32, devices)) and not rank():
        print(told)
    logger = None if rank() else build(cfg.logger)(record)
    utilisation = Utilisation(record.folder, INTERVAL)
    try:
        throughput = Throughput()
        table = MetricsTable(record.folder, checkpoint["run"]["rows"] if checkpoint else 0)
        last = LastCheckpoint(record.checkpoints, cfg.checkpoint_minutes, stop, lambda: _for_checkpoint(record, table))
        best = ModelCheckpoint(
            dirpath=record.checkpoints,
            filename="best",
            monitor=f"validation/{data.corpus.validation[0]}/wer",
            enable_version_counter=False,
        )
        losses = StepLosses(record.folder)
        pruning = build(cfg.pruning)(record.folder, best.monitor)
        go_on = GoOn(checkpoint["ranks"] if checkpoint else None)
        callbacks = [
            last,
            throughput,
            utilisation,
            FiniteLoss(),
            best,
            losses,
            Progress(cfg.progress, record.folder),
            *([pruning] if pruning is not None else []),
            go_on,
        ]
        fitter = trainer(cfg, devices, [table, *([logger] if logger else [])], callbacks)
        if not rank():
            write_json(record.folder / "data.json", data.describe())
        try:
            fitter.fit(task, data, ckpt_path=record.checkpoints / LAST if checkpoint is not None else None)
        except RuntimeError as error:
            if (failure := data.explain(error)) is error:
                raise
            raise failure from error
        record.phases["train"] = last.seconds
        if rank():
            utilisation.close()
            return
        with _phase(record, "evaluate"), utilisation.during("evaluate"):
            rows = _evaluate(fitter, task, data)
        utilisation.close()
        summary = _summary(cfg, record, fitter, task, data, rows, throughput)
        summary["metrics"] = dict(sorted(last.metrics.items()))
        summary["phase_seconds"] = utilisation.phases
        write_csv(record.folder / "utterances.csv", rows)
        write_json(record.folder / "summary.json", summary)
        _log_result(logger, summary, rows)
    except Pruned as pruned:
        utilisation.close()
        record.phases["train"] = last.state_dict()["seconds"]
        if not rank():
            summary = _summary(cfg, record, fitter, task, data, [], throughput)
            write_json(record.folder / "summary.json", {**summary, "phase_seconds": utilisation.phases})
            print(f"pruned: {pruned}\nrun folder  {record.folder}", flush=True)
        _finish(logger, 0)
        raise
    except BaseException:
        utilisation.close()
        _finish(logger, 1)
        raise
    _finish(logger, 0)
    print_run(record.folder, summary, rows)


def _for_checkpoint(record: Run, table: MetricsTable) -> dict[str, Any]:
    """What a checkpoint tells of its run: enough to know whose it is, and what its tables held."""
    config = OmegaConf.to_container(record.cfg, resolve=True)
    return {"id": record.id, "config": config, "fingerprint": record.fingerprint, "rows": table.rows}


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
        "parameters": sum(p.numel() for p in task.model.parameters()),
        "epochs": fitter.current_epoch,
        "steps": fitter.global_step,
        "train_utterances": len(data.sets["train"]),
        "train_hours": float(data.sets["train"].durations.sum()) / 3600,
        "left_out": data.left_out,
        "precision": fitter.precision,
        "seed_streams": {name: seed_of(cfg, name) for name in STREAMS},
        "ranks": fitter.world_size,
        "launch_seconds": throughput.first_step - float(os.environ[LAUNCHED]) if LAUNCHED in os.environ else None,
        "peak_memory_bytes": _peak_memory(fitter),
        "seconds": record.phases,
        **throughput.totals(),
    }


def _peak_memory(fitter: pl.Trainer) -> int:
    """Of the device's memory on a GPU, of this process on the CPU."""
    if fitter.strategy.root_device.type == "cuda":
        return int(torch.cuda.max_memory_reserved())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


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


def _in_processes(cfg: DictConfig) -> Path:
    """Under torchrun where several ranks train together."""
    import subprocess

    from asr_ablations.sweep.arm import child_environment, command

    with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as file:
        file.write(OmegaConf.to_yaml(cfg, resolve=True))
    code = subprocess.run(
        command(Path(sys.argv[0]), Path(file.name), ranks(cfg)), env=child_environment(), check=False
    ).returncode
    Path(file.name).unlink()
    if code:
        sys.exit(code)
    return prepare(cfg)[0].folder


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
        ".*Checkpoint directory .* exists.*",  # a run that goes on
        ".*your dataloader is not resumable.*",  # its order is: data/module.py
        ".*smaller than the logging interval.*",  # epochs are logged too
        ".*isinstance.treespec, LeafSpec.*",  # Lightning 2.6 under torch 2.11
    ):
        warnings.filterwarnings("ignore", message)

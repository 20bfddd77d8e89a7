"""run(cfg): build → fit → evaluate → record."""

import logging
import os
import sys
import tempfile
from pathlib import Path

import torch
from omegaconf import DictConfig, OmegaConf

from asr_ablations.config.build import build
from asr_ablations.config.checks import check
from asr_ablations.data.datamodule import SpeechData
from asr_ablations.experiment.fit import Fit
from asr_ablations.experiment.terminal import print_finished
from asr_ablations.runs.checkpoint import read_checkpoint
from asr_ablations.runs.folder import Run
from asr_ablations.runs.identity import ranks
from asr_ablations.runs.layout import last_checkpoint
from asr_ablations.runs.process import command, wait_for
from asr_ablations.runs.reader import read_environment
from asr_ablations.runs.status import status_of
from asr_ablations.tools.files import Json
from asr_ablations.tools.machine import rank
from asr_ablations.training.assembly import assemble, device_count
from asr_ablations.training.quiet import quiet
from asr_ablations.training.signals import StopRequest
from asr_ablations.training.task import CTCTask

log = logging.getLogger(__name__)
_has_trained = False


def run(cfg: DictConfig) -> Path:
    """Train and evaluate one config; returns the run's folder.

    What is finished is not trained again, what was interrupted or failed goes on from its last checkpoint. Raises
    UsageError for what the config gets wrong, LeaseHeldError where another process is at the same run.
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
        Fit(cfg, devices, record, task, data, stop, checkpoint).execute()
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
    told = status_of(record.folder) or {}
    if told.get("status") != "pruned" or build(cfg.pruning)(record.folder, "") is None:
        return False
    print(f"pruned already: {told['reason']}\nrun folder  {record.folder}\npruning=none goes on with it", flush=True)
    return True


def _last_checkpoint(record: Run) -> Json | None:
    """Where an earlier attempt at this run came to. One that cannot be read is put aside, and the run starts anew."""
    path = last_checkpoint(record.folder)
    if not path.exists():
        return None
    try:
        checkpoint = read_checkpoint(path)
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
    threads = read_environment(record.folder)["hardware"]["threads"]
    if threads != torch.get_num_threads():
        print(f"with {threads} threads, as it began", flush=True)
        torch.set_num_threads(threads)


def _in_processes(cfg: DictConfig) -> Path:
    """Under torchrun where several ranks train together."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as file:
        file.write(OmegaConf.to_yaml(cfg, resolve=True))
    try:
        code = wait_for(command(Path(sys.argv[0]), Path(file.name), ranks(cfg)))
    finally:
        Path(file.name).unlink()
    if code:
        sys.exit(code)
    return prepare(cfg)[0].folder

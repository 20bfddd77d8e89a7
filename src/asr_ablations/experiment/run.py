"""Run one config: build its task and data, find its run folder, then start, continue or skip the training."""

import os
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import torch
from omegaconf import DictConfig, OmegaConf

from asr_ablations.config.build import build
from asr_ablations.data.corpus import Corpus
from asr_ablations.data.datamodule import SpeechData
from asr_ablations.experiment.finished import compute_fingerprint, is_finished, put_aside_damaged
from asr_ablations.experiment.fit import TrainingRun
from asr_ablations.runs.folder import Run
from asr_ablations.runs.identity import refuse_changed_files, weights_file
from asr_ablations.runs.process import LAUNCHER, command, wait_for
from asr_ablations.runs.status import Diverged, fate_of
from asr_ablations.tools.machine import allow_files, keep_memory, rank
from asr_ablations.training.assembly import assemble, device_count, use_native
from asr_ablations.training.checkpoints import read_last_checkpoint, restore_threads
from asr_ablations.training.lightning_warnings import silence_lightning
from asr_ablations.training.signals import StopRequest
from asr_ablations.training.task import CTCTask
from asr_ablations.training.trained_model import start_from
from asr_verdicts.config import ranks


def run(cfg: DictConfig) -> Path:
    """Train and evaluate a checked config, and return the run folder. An interrupted or failed run is continued.

    Raise UsageError for a mistake in the config, LeaseHeldError if another process is training the same run, and
    Diverged if the loss is no longer finite.
    """
    refuse_changed_files(OmegaConf.to_container(cfg))
    if ranks(cfg) > 1 and "LOCAL_RANK" not in os.environ:
        return run_in_ranks(cfg)
    silence_lightning()
    try:
        with StopRequest() as stop:
            return _run(cfg, stop)
    except Diverged as diverged:
        if not rank():
            print(diverged, file=sys.stderr, flush=True)
        if "LOCAL_RANK" in os.environ and LAUNCHER in os.environ:
            sys.exit()  # an error code would make torchrun stop ranks that are writing; the launcher reads status.json
        raise


def run_in_ranks(cfg: DictConfig) -> Path:
    """Run a config under torchrun with one process per rank, and return the run folder. Exit if a process fails."""
    device_count(cfg)
    assemble(cfg, build(cfg.data))  # a trial build reports a wrong value once, instead of in every rank
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(OmegaConf.to_yaml(cfg, resolve=True))
        file.flush()
        if code := wait_for(command(Path(sys.argv[0]), Path(file.name), ranks(cfg))):
            sys.exit(code)
    folder = Run(cfg, compute_fingerprint(cfg)).folder
    ended = fate_of(folder)
    if ended.diverged_at is not None:
        raise Diverged(ended.diverged_at, ended.reason)
    return folder


def _run(cfg: DictConfig, stop: StopRequest) -> Path:
    devices = device_count(cfg)
    record, task, data = set_up(cfg)
    from_scratch = cfg.force or put_aside_damaged(record)
    if not from_scratch and is_finished(record, cfg):
        return record.folder
    if cfg.force and not rank():
        record.keep_previous()
    with record:
        checkpoint = None if from_scratch else read_last_checkpoint(record)
        if checkpoint is not None:
            restore_threads(record)
        if not rank():
            device = f"{devices} GPUs" if devices > 1 else "GPU" if devices else "CPU"
            print(f"trains on {device} with {torch.get_num_threads()} threads in {record.folder}", flush=True)
        if not devices:
            keep_memory()
        training = TrainingRun(cfg, devices, record, task, data, stop, checkpoint)
        del checkpoint  # free its memory, which is as large as the weights and the optimizer state
        training.run()
    return record.folder


class Setup(NamedTuple):
    """A run that is ready for its first step. Its folder has not been created yet."""

    record: Run
    task: CTCTask
    data: SpeechData


def set_up(cfg: DictConfig) -> Setup:
    """Build the task, prepare the corpus and read every split. Raise UsageError for wrong values or bad data."""
    allow_files(cfg.workers)
    if cfg.threads is not None:
        torch.set_num_threads(cfg.threads)
    use_native(cfg, device_count(cfg))
    corpus: Corpus = build(cfg.data)
    task, data = assemble(cfg, corpus)  # before the slow corpus preparation, to report wrong values at once
    if cfg.weights is not None:
        start_from(task, weights_file(cfg.weights), cfg.weights_sha256, cfg.weights_parts)
    corpus.prepare()
    data.setup()
    return Setup(Run(cfg, data.fingerprint), task, data)

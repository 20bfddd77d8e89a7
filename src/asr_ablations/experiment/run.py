"""run(cfg): build → fit → evaluate → record."""

import logging
import os
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import torch
from omegaconf import DictConfig, OmegaConf

from asr_ablations.config.build import build
from asr_ablations.config.plain_keys import check
from asr_ablations.data.corpus import Corpus
from asr_ablations.data.datamodule import SpeechData
from asr_ablations.experiment.finished import print_finished
from asr_ablations.experiment.fit import TrainingRun
from asr_ablations.runs.checkpoint import read_checkpoint
from asr_ablations.runs.folder import Run
from asr_ablations.runs.identity import refuse_changed_files, weights_file
from asr_ablations.runs.layout import OUTPUT_LOG, last_checkpoint
from asr_ablations.runs.process import LAUNCHER, command, wait_for
from asr_ablations.runs.reader import read_environment
from asr_ablations.runs.records import damage
from asr_ablations.runs.status import DONE, PRUNED, Diverged, fate_of, reason, status_of
from asr_ablations.tools.files import free_name
from asr_ablations.tools.machine import allow_files, keep_memory, rank
from asr_ablations.training.assembly import assemble, device_count, use_native
from asr_ablations.training.contracts import Checkpoint
from asr_ablations.training.ddp import quiet
from asr_ablations.training.signals import StopRequest
from asr_ablations.training.task import CTCTask
from asr_ablations.training.trained_model import start_from
from asr_verdicts.config import ranks
from asr_verdicts.errors import UsageError

log = logging.getLogger(__name__)


def earlier_checkpoint(record: Run) -> Checkpoint | None:
    """The last checkpoint of an earlier attempt at this run. Where it is damaged, or another run's, all checkpoints are
    put aside, and the run starts anew. Raises UsageError where it cannot be read now: nothing is changed then.
    """
    path = last_checkpoint(record.folder)
    if not path.exists():
        return None
    try:
        checkpoint = read_checkpoint(path)
        _check_resumable(checkpoint, record.id)
    except UsageError as error:
        if not rank():
            log.warning("%s; the run starts anew, and its checkpoints are kept in %s", error, _put_aside(path.parent))
        return None
    except (OSError, MemoryError) as error:
        raise UsageError(f"{path}: it cannot be read now: {reason(error)}; the same command continues later") from error
    if not rank():
        position = checkpoint["position"]
        epoch, batch = position["epoch"] + 1, position["batches"]
        print(f"continues from epoch {epoch}, batch {batch}: {record.folder}", flush=True)
    return checkpoint


def _check_resumable(checkpoint: Checkpoint, run: str) -> None:
    """Raises UsageError for a checkpoint from which a run with this id cannot continue."""
    try:
        owner = checkpoint["run"]["id"]
        numbers = [checkpoint["position"]["epoch"], checkpoint["position"]["batches"], checkpoint["run"]["rows"]]
        ranks_ = len(checkpoint["ranks"])
    except (KeyError, TypeError) as error:
        raise UsageError(f"last.ckpt: no checkpoint to continue from: it lacks {error}") from error
    if not ranks_ or not all(isinstance(number, int) and number >= 0 for number in numbers):
        raise UsageError("last.ckpt: no checkpoint to continue from: its position is no number")
    if owner != run:
        raise UsageError(f"last.ckpt: it belongs to the run {owner}, and this one is {run}")


def _put_aside(checkpoints: Path) -> Path:
    """Rename a folder of checkpoints to a free name beside it; nothing is overwritten, the best one is kept with it."""
    return checkpoints.rename(free_name(checkpoints))


class Setup(NamedTuple):
    """A run that is ready for its first step. record: its folder, of which nothing is written yet."""

    record: Run
    task: CTCTask
    data: SpeechData


def run(cfg: DictConfig) -> Path:
    """Train and evaluate one config; returns the run's folder.

    A finished run is not trained again, nor is one that diverged; an interrupted or failed one continues from its last
    checkpoint. Raises UsageError for a mistake in the config, LeaseHeldError if another process works on the same run,
    Diverged for a loss that is no finite number, with the reason printed.
    """
    check(cfg)
    refuse_changed_files(OmegaConf.to_container(cfg))
    devices = device_count(cfg)
    if ranks(cfg) > 1 and "LOCAL_RANK" not in os.environ:
        return _in_processes(cfg)
    quiet()
    stop = StopRequest()
    stop.listen()
    try:
        return _run(cfg, devices, stop)
    except Diverged as diverged:
        if not rank():
            print(diverged, file=sys.stderr, flush=True)
        if "LOCAL_RANK" in os.environ and LAUNCHER in os.environ:
            sys.exit()  # no rank is to be stopped while another writes; who waits for them reads the status
        raise
    finally:
        stop.close()


def _run(cfg: DictConfig, devices: int, stop: StopRequest) -> Path:
    record, task, data = set_up(cfg)
    anew = cfg.force or _is_damaged(record)
    if not anew and record.status() == DONE:
        print_finished(record)
        return record.folder
    if not anew:
        _refuse_diverged(record.folder)
    if cfg.force and not rank():
        record.keep_previous()
    if not anew and _remains_pruned(record, cfg):
        return record.folder
    with record:
        checkpoint = None if anew else earlier_checkpoint(record)
        if checkpoint is not None:
            _restore_threads(record)
        if not rank():
            device = f"{devices} GPUs" if devices > 1 else "GPU" if devices else "CPU"
            print(f"trains on {device} with {torch.get_num_threads()} threads in {record.folder}", flush=True)
        if not devices:
            keep_memory()
        training = TrainingRun(cfg, devices, record, task, data, stop, checkpoint)
        del checkpoint  # as large as the weights and the optimizer; Lightning frees it once all is restored
        training.run()
    return record.folder


def set_up(cfg: DictConfig) -> Setup:
    """Do everything that precedes the first step: build the task, prepare the corpus, read every split.

    Raises UsageError for values out of range and for missing or bad data.
    """
    allow_files(cfg.workers)
    if cfg.threads is not None:
        torch.set_num_threads(cfg.threads)
    use_native(cfg, device_count(cfg))
    corpus: Corpus = build(cfg.data)
    task, data = assemble(cfg, corpus)  # before the corpus is generated: a wrong value should not cost a minute
    if cfg.weights is not None:
        start_from(task, weights_file(cfg.weights), cfg.weights_sha256, cfg.weights_parts)
    corpus.prepare()
    data.setup()
    return Setup(Run(cfg, data.fingerprint), task, data)


def _is_damaged(record: Run) -> bool:
    """True if files of an earlier run are damaged, from which this one can neither continue nor take a result; its
    folder is put aside then.
    """
    if (words := damage(record.folder)) is None:
        return False
    if not rank():
        kept = record.keep_previous()
        log.warning("%s; the run starts anew, and its folder is kept as %s", words, kept)
        if kept is not None and (printed := kept / OUTPUT_LOG).exists():  # into which this process is printing
            record.folder.mkdir()
            printed.rename(record.folder / OUTPUT_LOG)
    return True


def _refuse_diverged(folder: Path) -> None:
    """Raises Diverged for a run that did: from the same content it would again, bit for bit."""
    earlier = fate_of(folder)
    if earlier.diverged_at is not None:
        raise Diverged(earlier.diverged_at, f"{earlier.reason}, as before; force=true runs it again: {folder}")


def _remains_pruned(record: Run, cfg: DictConfig) -> bool:
    """True if the run was pruned and pruning is still on, so that it does not continue; prints why."""
    status = status_of(record.folder)
    if status is None or status.status != PRUNED or cfg.pruning is None:
        return False
    print(f"pruned already: {status.reason}\nrun folder  {record.folder}\npruning=none continues it", flush=True)
    return True


def _restore_threads(record: Run) -> None:
    """Use as many threads as the run started with: another number would sum in another order, and change the last bits
    of every number.
    """
    threads = read_environment(record.folder).hardware.threads
    if threads is not None and threads != torch.get_num_threads():
        print(f"with {threads} threads, as the run started", flush=True)
        torch.set_num_threads(threads)


def _in_processes(cfg: DictConfig) -> Path:
    """Run a config in new processes, under torchrun where several ranks train together; exits if they fail.

    Raises UsageError for what `assemble` refuses, before the first of them is started.
    """
    assemble(cfg, build(cfg.data))
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as file:
        file.write(OmegaConf.to_yaml(cfg, resolve=True))
    try:
        code = wait_for(command(Path(sys.argv[0]), Path(file.name), ranks(cfg)))
    finally:
        Path(file.name).unlink()
    if code:
        sys.exit(code)
    folder = set_up(cfg).record.folder
    ended = fate_of(folder)
    if ended.diverged_at is not None:
        raise Diverged(ended.diverged_at, ended.reason)
    return folder

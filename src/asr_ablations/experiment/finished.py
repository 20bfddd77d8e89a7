"""Find the result of an earlier attempt at a run, or damage in it. This module avoids torch, whose import is slow."""

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache, partial

from omegaconf import DictConfig, OmegaConf

from asr_ablations.config.build import build
from asr_ablations.data.corpus import Corpus
from asr_ablations.data.description import fingerprint
from asr_ablations.runs.folder import Run
from asr_ablations.runs.layout import OUTPUT_LOG
from asr_ablations.runs.reader import UnreadableFileError, read_environment, read_status, read_summary
from asr_ablations.runs.records import damage
from asr_ablations.runs.status import DONE, PRUNED, RESULTS, Diverged, fate_of
from asr_ablations.runs.wandb_run import sync_command
from asr_ablations.tools.machine import rank
from asr_verdicts.errors import UsageError

log = logging.getLogger(__name__)


def find_finished_runs(configs: Sequence[DictConfig]) -> list[Run] | None:
    """Return the runs of the given configs if every run is done or has diverged, otherwise None.

    Corpora are read only if every config has a run folder with a result. If a corpus cannot be read, return None, and
    training will report the error.
    """
    if not all(not cfg.force and any(map(_has_result, _earlier(cfg))) for cfg in configs):
        return None
    fingerprints: dict[str, str] = {}
    runs = []
    try:
        for cfg in configs:
            key = json.dumps(OmegaConf.to_container(cfg.data, resolve=True), sort_keys=True)
            if key not in fingerprints:
                fingerprints[key] = compute_fingerprint(cfg)
            runs.append(Run(cfg, fingerprints[key]))
        return runs if all(run.status() and _has_result(run) and damage(run.folder) is None for run in runs) else None
    except UsageError:
        return None


def print_finished(record: Run) -> None:
    """Print the error rates of a run that was already done. Only the first rank prints."""
    if rank():
        return
    summary = read_summary(record.folder)
    started = read_status(record.folder).started or "at an unknown time"
    sets = ", ".join(f"{name} WER {100 * result.wer:.2f} %" for name, result in summary.sets.items())
    print(
        f"done already, started {started}: {sets}\nrun folder  {record.folder}\n"
        "force=true trains it again and keeps this folder under another name"
    )
    if command := sync_command([record.folder]):
        print(f"W&B         later: {command}")


def is_finished(record: Run, cfg: DictConfig) -> bool:
    """Return whether a run needs no more training, and print why. Raise Diverged if the run has diverged.

    A pruned run counts as finished only if the config still has pruning.
    """
    name = record.status()
    if name == DONE:
        print_finished(record)
        return True
    earlier = fate_of(record.folder)
    if earlier.diverged_at is not None:
        reason = f"{earlier.reason}, as before; force=true runs it again: {record.folder}"
        raise Diverged(earlier.diverged_at, reason)
    if name != PRUNED or cfg.pruning is None:
        return False
    why = read_status(record.folder).reason
    print(f"pruned already: {why}\nrun folder  {record.folder}\npruning=none continues it", flush=True)
    return True


def put_aside_damaged(record: Run) -> bool:
    """Return whether files of an earlier attempt at a run are damaged. If so, rename the run folder."""
    if (words := damage(record.folder)) is None:
        return False
    if not rank():
        old_folder = record.keep_previous()
        log.warning("%s; the run starts from scratch, and its old folder is now %s", words, old_folder)
        if old_folder is not None and (printed := old_folder / OUTPUT_LOG).exists():  # this process is writing it
            record.folder.mkdir()
            printed.rename(record.folder / OUTPUT_LOG)
    return True


def _earlier(cfg: DictConfig) -> Iterator[Run]:
    """Yield the existing runs of a config, whatever their data and the names of their folders."""
    without_data, with_data = Run(cfg), cache(partial(Run, cfg))
    for folder in without_data.folder.parent.glob(f"*-{'?' * len(without_data.id)}"):
        with suppress(FileNotFoundError, UnreadableFileError):
            recorded = read_environment(folder).data_fingerprint
            if recorded is not None and (run := with_data(recorded)).folder == folder:
                yield run


def _has_result(run: Run) -> bool:
    return fate_of(run.folder).state in RESULTS


def compute_fingerprint(cfg: DictConfig) -> str:
    """Prepare and read the corpus of a config, and return the fingerprint of the corpus."""
    corpus: Corpus = build(cfg.data)
    corpus.prepare()
    return fingerprint(corpus)

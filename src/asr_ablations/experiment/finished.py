"""Runs that have their results already, recognised without torch: importing it takes longer than all else here."""

import json
from collections.abc import Iterator, Sequence

from omegaconf import DictConfig, OmegaConf

from asr_ablations.config.build import build
from asr_ablations.data.corpus import Corpus
from asr_ablations.data.fingerprint import fingerprint
from asr_ablations.runs.folder import Run
from asr_ablations.runs.reader import UnreadableFileError, read_environment, read_status, read_summary
from asr_ablations.runs.records import damage
from asr_ablations.runs.status import RESULTS, fate_of
from asr_ablations.tools.machine import rank
from asr_verdicts.errors import UsageError


def finished(configs: Sequence[DictConfig]) -> list[Run] | None:
    """The runs of these configs where every one has its result, done or diverged; None where any is left to do.

    The data are read, since a run is identified by their content, but only where the folders say that they would do.
    None also for data that cannot be read: whoever trains reports that.
    """
    if not all(map(_looks_finished, configs)):
        return None
    known: dict[str, str] = {}
    runs = []
    try:
        for cfg in configs:
            key = json.dumps(OmegaConf.to_container(cfg.data, resolve=True), sort_keys=True)
            if key not in known:
                known[key] = fingerprint_of(cfg)
            runs.append(Run(cfg, known[key]))
        return runs if all(run.status() and _has_result(run) and damage(run.folder) is None for run in runs) else None
    except UsageError:
        return None


def print_finished(record: Run) -> None:
    """Print that a run needs no training, with its results; of several ranks only the first does."""
    if rank():
        return
    summary = read_summary(record.folder)
    started = read_status(record.folder).started or "at a time that is not recorded"
    sets = ", ".join(f"{name} WER {100 * result.wer:.2f} %" for name, result in summary.sets.items())
    print(
        f"done already, started {started}: {sets}\nrun folder  {record.folder}\n"
        "force=true trains it anew and keeps this folder under another name"
    )


def _looks_finished(cfg: DictConfig) -> bool:
    """True if there is a result of this config with the data that it had then."""
    return not cfg.force and any(map(_has_result, _earlier(cfg)))


def _earlier(cfg: DictConfig) -> Iterator[Run]:
    """The runs of this config that have a folder, whatever their data and their name."""
    without_data = Run(cfg)
    by_data: dict[str, Run] = {}
    for folder in without_data.folder.parent.glob(f"*-{'?' * len(without_data.id)}"):
        try:
            recorded = read_environment(folder).data_fingerprint
        except (FileNotFoundError, UnreadableFileError):
            continue
        if recorded is None:
            continue
        if recorded not in by_data:
            by_data[recorded] = Run(cfg, recorded)
        if by_data[recorded].folder == folder:
            yield by_data[recorded]


def _has_result(run: Run) -> bool:
    return fate_of(run.folder).state in RESULTS


def fingerprint_of(cfg: DictConfig) -> str:
    """The fingerprint of a config's data, which are prepared and read."""
    corpus: Corpus = build(cfg.data)
    corpus.prepare()
    return fingerprint(corpus)

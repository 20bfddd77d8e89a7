"""Log-probabilities of whole sets on disk, which are computed once and used by every decoder."""

import logging
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from rich.progress import track

from asr_ablations.data.fingerprint import content_hash
from asr_ablations.data.utterances import Utterance
from asr_ablations.runs.identity import content
from asr_ablations.runs.layout import LOG_PROBS
from asr_ablations.runs.reader import LogProbsRecord, UnreadableFileError, read_log_probs
from asr_ablations.tools.content_keys import content_key, hash_file, hash_targets, library_versions
from asr_ablations.training.trained_model import Trained
from asr_verdicts.errors import UsageError
from asr_verdicts.files import whole_file, write_json

log = logging.getLogger(__name__)

LOWEST = np.finfo(np.float16).min
FORMAT = 1  # version of the stored format, increased when it changes
TASK, READER = "asr_ablations.training.task", "asr_ablations.data.audio"
"""Modules that compute log-probabilities from audio, in addition to the config's components."""

Precision: TypeAlias = Callable[[], AbstractContextManager[object]]  # creates a context for the forward pass


@dataclass(frozen=True)
class LogProbs:
    """The log-probabilities of one set.

    file: (frames of all utterances, V) in float16, nats. lengths: frames of each utterance (N,). seconds: duration of
    the forward pass. device: the one used for it.
    """

    name: str
    file: Path
    utterances: list[Utterance]
    lengths: list[int]
    seconds: float
    device: str

    @property
    def audio_seconds(self) -> float:
        return sum(utterance.duration for utterance in self.utterances)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The first row of each utterance, and the row after its last."""
        ends = np.cumsum(self.lengths, dtype=np.int64).tolist()
        return [(end - length, end) for end, length in zip(ends, self.lengths, strict=True)]

    def read(self) -> list[np.ndarray]:
        """Return an array (length, V) for each utterance."""
        rows = open_rows(self.file)
        return [rows[begin:end] for begin, end in self.spans]


def open_rows(file: Path) -> np.ndarray:
    """Open all frames (T, V) in a file, which are read when used. Raises ValueError if the array is incomplete."""
    rows: np.ndarray = np.load(file, mmap_mode="r")
    return rows


def stored_log_probs(trained: Trained, name: str, device: torch.device, precision: Precision) -> LogProbs:
    """Return a set's log-probabilities from the run's folder, computed if missing. Raises UsageError for equal ids."""
    if name not in trained.data.sets:
        trained.data.read(name)
    utterances = unique_utterances(name, trained.data.sets[name].utterances)
    file = trained.folder / LOG_PROBS / f"{name}-{log_probs_key(trained, utterances, device)}.npy"
    if (index := _read_stored(file, len(utterances))) is None:
        file.parent.mkdir(exist_ok=True)
        _compute(trained, name, utterances, file, device, precision)
        index = read_log_probs(file.with_suffix(".json"))
    return LogProbs(name, file, utterances, index.lengths, index.seconds, index.device)


def unique_utterances(name: str, utterances: Iterable[Utterance]) -> list[Utterance]:
    """Return each utterance once, sorted by id. Raises UsageError if different ones have the same id."""
    by_id: dict[str, Utterance] = {}
    for utterance in utterances:
        if by_id.setdefault(utterance.id, utterance) != utterance:
            raise UsageError(f"{name}: two utterances have the id {utterance.id}")
    return [by_id[id_] for id_ in sorted(by_id)]


def log_probs_key(trained: Trained, utterances: Iterable[Utterance], device: torch.device) -> str:
    """Return twelve hexadecimal digits of a hash over everything that log-probabilities depend on. This is checkpoint,
    config, source of features and model, utterances with audio, and device.
    """
    nodes = [trained.cfg[group] for group in ("features", "model", "rnn", "norm")]
    return content_key(
        12,
        checkpoint=hash_file(trained.checkpoint),
        config=content(trained.cfg),
        sources=hash_targets([TASK, READER, *(str(node._target_) for node in nodes)]),
        versions=library_versions(),
        utterances=content_hash(list(utterances)),
        device=device.type,
        format=FORMAT,
    )


def _read_stored(file: Path, utterances: int) -> LogProbsRecord | None:
    """Return the record of stored log-probabilities; None if they are missing, or damaged (with a warning)."""
    try:
        index = read_log_probs(file.with_suffix(".json"))
        rows, frames = open_rows(file), sum(index.lengths)
        if (len(index.lengths), rows.shape[:-1], rows.dtype) == (utterances, (frames,), np.float16):
            return index
        fault = f"{rows.shape} values of {rows.dtype}, recorded as {frames} frames of {len(index.lengths)} utterances"
    except FileNotFoundError:
        return None
    except UnreadableFileError as error:
        fault = f"{error.path.name}: {error.reason}"
    except (OSError, ValueError, EOFError) as error:
        fault = str(error)
    log.warning("%s is damaged and will be computed again: %s", file, fault)
    return None


def _compute(
    trained: Trained, name: str, utterances: list[Utterance], file: Path, device: torch.device, precision: Precision
) -> None:
    """Write a set's log-probabilities and the file that describes them."""
    started = time.perf_counter()
    trained.data.pinned = device.type == "cuda"
    task, loader = trained.task.to(device), trained.data.evaluation_dataloader(name)
    by_id: dict[str, np.ndarray] = {}
    for batch in track(loader, f"log-probabilities of {name}", transient=True, disable=not sys.stdout.isatty()):
        with torch.inference_mode(), precision():
            log_probs, lengths = task(batch.to(device))
        for id_, row, length in zip(batch.ids, log_probs.cpu().numpy(), lengths.tolist(), strict=True):
            by_id[id_] = halved(row[:length])
    rows = np.concatenate([by_id[utterance.id] for utterance in utterances])
    description = {
        "set": name,
        "shape": list(rows.shape),
        "unit": "nats",
        "checkpoint": trained.checkpoint.name,
        "alphabet": trained.task.alphabet.characters,
        "device": str(device),
        "seconds": time.perf_counter() - started,
        "ids": [utterance.id for utterance in utterances],
        "lengths": [len(by_id[utterance.id]) for utterance in utterances],
    }
    with whole_file(file, ending=".npy") as temporary:  # renamed after its index is written, so a complete file has one
        np.save(temporary, rows)
        write_json(file.with_suffix(".json"), description)


def halved(row: np.ndarray) -> np.ndarray:
    """Round (T, V) to float16. If rounding makes another symbol equal to a frame's best, the best is raised."""
    rounded = np.clip(row, LOWEST, None).astype(np.float16)
    best = row.argmax(axis=1)
    frames = np.flatnonzero(rounded.argmax(axis=1) != best)
    lost = frames, best[frames]
    rounded[lost] = np.nextafter(rounded[lost], np.float16(np.inf))
    return rounded

"""Log-probabilities of whole sets on disk. They are computed once; every decoder and language model reads them."""

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
FORMAT = 1  # the version of the stored format: raised when what is stored changes
TASK, READER = "asr_ablations.training.task", "asr_ablations.data.audio"
"""Modules whose code computes log-probabilities from audio, beside the components that the config names."""

Precision: TypeAlias = Callable[[], AbstractContextManager[object]]  # makes a context for the forward pass


@dataclass(frozen=True)
class LogProbs:
    """The log-probabilities of one set.

    file: (frames of all utterances, V) float16, nats; lengths: frames of each utterance (N,), in the order of the
    utterances; seconds: duration of the forward pass; device: where it ran.
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
        """Of each utterance the row at which it begins, and the one before which it ends."""
        ends = np.cumsum(self.lengths, dtype=np.int64).tolist()
        return [(end - length, end) for end, length in zip(ends, self.lengths, strict=True)]

    def read(self) -> list[np.ndarray]:
        """One array (length, V) per utterance."""
        rows = open_rows(self.file)
        return [rows[begin:end] for begin, end in self.spans]


def open_rows(file: Path) -> np.ndarray:
    """All frames (T, V) of a file, read where they are used. Raises ValueError for a file that is no whole array."""
    rows: np.ndarray = np.load(file, mmap_mode="r")
    return rows


def stored_log_probs(trained: Trained, name: str, device: torch.device, precision: Precision) -> LogProbs:
    """Log-probabilities of a set from the run's folder, computed if missing. Raises UsageError for equal ids."""
    if name not in trained.data.sets:
        trained.data.read(name)
    utterances = unique_utterances(name, trained.data.sets[name].utterances)
    file = trained.folder / LOG_PROBS / f"{name}-{log_probs_key(trained, utterances, device)}.npy"
    if (index := _stored(file, len(utterances))) is None:
        file.parent.mkdir(exist_ok=True)
        _compute(trained, name, utterances, file, device, precision)
        index = read_log_probs(_index(file))
    return LogProbs(name, file, utterances, index.lengths, index.seconds, index.device)


def unique_utterances(name: str, utterances: Iterable[Utterance]) -> list[Utterance]:
    """Return each utterance once, in the order of the ids. Raises UsageError for different ones with the same id."""
    by_id: dict[str, Utterance] = {}
    for utterance in utterances:
        if by_id.setdefault(utterance.id, utterance) != utterance:
            raise UsageError(f"{name}: two utterances have the id {utterance.id}")
    return [by_id[id_] for id_ in sorted(by_id)]


def log_probs_key(trained: Trained, utterances: Iterable[Utterance], device: torch.device) -> str:
    """Twelve hexadecimal digits of a hash over everything that determines log-probabilities: the checkpoint, the
    config, the source of features and model, the utterances with their audio, and the device.
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


def _index(file: Path) -> Path:
    """The file that describes a file of log-probabilities."""
    return file.with_suffix(".json")


def _stored(file: Path, utterances: int) -> LogProbsRecord | None:
    """The record of stored log-probabilities; None if they are missing, or damaged, which a warning says."""
    try:
        index = read_log_probs(_index(file))
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
    log.warning("%s is damaged and is computed again: %s", file, fault)
    return None


def _compute(
    trained: Trained, name: str, utterances: list[Utterance], file: Path, device: torch.device, precision: Precision
) -> None:
    started = time.perf_counter()
    by_id = _forward(trained, name, device, precision)
    rows = np.concatenate([by_id[utterance.id] for utterance in utterances])
    with whole_file(file, ending=".npy") as temporary:  # it takes its name after its index: a whole file has one
        np.save(temporary, rows)
        write_json(
            _index(file),
            {
                "set": name,
                "shape": list(rows.shape),
                "unit": "nats",
                "checkpoint": trained.checkpoint.name,
                "alphabet": trained.task.alphabet.characters,
                "device": str(device),
                "seconds": time.perf_counter() - started,
                "ids": [utterance.id for utterance in utterances],
                "lengths": [len(by_id[utterance.id]) for utterance in utterances],
            },
        )


def _forward(trained: Trained, name: str, device: torch.device, precision: Precision) -> dict[str, np.ndarray]:
    """Log-probabilities (length, V) of every utterance in float16, by id."""
    trained.data.pinned = device.type == "cuda"
    task, loader = trained.task.to(device), trained.data.evaluation_dataloader(name)
    by_id: dict[str, np.ndarray] = {}
    for batch in track(
        loader, description=f"log-probabilities of {name}", transient=True, disable=not sys.stdout.isatty()
    ):
        with torch.inference_mode(), precision():
            log_probs, lengths = task(batch.to(device))
        for id_, row, length in zip(batch.ids, log_probs.cpu().numpy(), lengths.tolist(), strict=True):
            by_id[id_] = halved(row[:length])
    return by_id


def halved(row: np.ndarray) -> np.ndarray:
    """Round (T, V) to float16; the best symbol of a frame is raised if rounding made another one equal."""
    rounded = np.clip(row, LOWEST, None).astype(np.float16)
    frames, best = np.arange(len(row)), row.argmax(axis=1) if len(row) else np.zeros(0, int)
    lost = rounded.argmax(axis=1) != best if len(row) else np.zeros(0, bool)
    frames, best = frames[lost], best[lost]
    rounded[frames, best] = np.nextafter(rounded[frames, best], np.float16(np.inf))
    return rounded

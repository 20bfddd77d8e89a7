"""Log-probabilities of whole sets on disk, computed once: every decoder and every language model reads them there."""

import hashlib
import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.progress import track

from asr_ablations.data.utterance import Utterance
from asr_ablations.runs.layout import LOG_PROBS
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.files import write_json
from asr_ablations.training.load import Trained

LOWEST = np.finfo(np.float16).min
FORMAT = 1
"""A new number where what is stored changes."""


@dataclass(frozen=True)
class Stored:
    """One set. file: (frames of all utterances, V) float16, nats; lengths: frames (N,), in the order of the utterances.

    seconds: what the forward pass took; device: where it ran.
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

    def open(self) -> list[np.ndarray]:
        """(length, V) of every utterance, mapped, not read."""
        return split(np.load(self.file, mmap_mode="r"), self.lengths)


def split(content: np.ndarray, lengths: Sequence[int]) -> list[np.ndarray]:
    """What lies behind one another as one array an utterance."""
    return np.split(content, np.cumsum(lengths)[:-1]) if len(lengths) else []


def stored(trained: Trained, name: str, device: torch.device, precision: Any) -> Stored:
    """The log-probabilities of a set from the run's folder, computed where they are not there yet.

    precision: a context for the forward pass. Raises UsageError for an id that stands twice in the set.
    """
    if name not in trained.data.sets:
        trained.data.read(name)
    ordered = once(name, trained.data.sets[name].utterances)
    key = _key(trained, ordered, device)
    file = trained.folder / LOG_PROBS / f"{name}-{key}.npy"
    index = file.with_suffix(".json")
    if not (file.exists() and index.exists()):
        file.parent.mkdir(exist_ok=True)
        _compute(trained, name, ordered, file, device, precision)
    told = json.loads(index.read_text(encoding="utf-8"))
    return Stored(name, file, ordered, told["lengths"], told["seconds"], told["device"])


def once(name: str, utterances: Iterable[Utterance]) -> list[Utterance]:
    """In the order of the ids, each once. Raises UsageError for two utterances of one id."""
    by_id: dict[str, Utterance] = {}
    for utterance in utterances:
        if by_id.setdefault(utterance.id, utterance) != utterance:
            raise UsageError(f"{name}: two utterances have the id {utterance.id}")
    return [by_id[id_] for id_ in sorted(by_id)]


def _key(trained: Trained, utterances: list[Utterance], device: torch.device) -> str:
    """A hash of the checkpoint and of what is spoken, and of the precision, which on a CPU may be another."""
    told = [_hash_of_file(trained.checkpoint), fingerprint(utterances), f"{trained.cfg.precision}{device.type}", FORMAT]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:12]


def fingerprint(utterances: Iterable[Utterance]) -> str:
    """A hash of the utterances and of their audio, as far as its size tells."""
    lines = []
    for one in utterances:
        told = one.audio.stat()
        lines.append(f"{one.id}\t{one.speaker}\t{one.offset}\t{one.duration}\t{one.text}\t{told.st_size}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _hash_of_file(file: Path) -> str:
    with file.open("rb") as opened:
        digest = hashlib.sha256()
        while block := opened.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _compute(
    trained: Trained, name: str, utterances: list[Utterance], file: Path, device: torch.device, precision: Any
) -> None:
    started = time.perf_counter()
    found = _forward(trained, name, device, precision)
    lengths = [len(found[utterance.id]) for utterance in utterances]
    temporary = file.with_name(f".{file.stem}.{os.getpid()}.npy")
    content = np.concatenate([found[utterance.id] for utterance in utterances])
    np.save(temporary, content)
    write_json(
        file.with_suffix(".json"),
        {
            "set": name,
            "shape": list(content.shape),
            "unit": "nats",
            "checkpoint": trained.checkpoint.name,
            "alphabet": trained.task.alphabet.characters,
            "device": str(device),
            "seconds": time.perf_counter() - started,
            "ids": [utterance.id for utterance in utterances],
            "lengths": lengths,
        },
    )
    temporary.replace(file)  # after its index: a file that is there is whole, and has one


def _forward(trained: Trained, name: str, device: torch.device, precision: Any) -> dict[str, np.ndarray]:
    """float16 (length, V) of every utterance by id."""
    task, loader = trained.task.to(device), trained.data.evaluation_dataloader(name)
    found: dict[str, np.ndarray] = {}
    for batch in track(
        loader, description=f"log-probabilities of {name}", transient=True, disable=not sys.stdout.isatty()
    ):
        with torch.inference_mode(), precision():
            log_probs, lengths = task(batch.to(device))
        for id_, row, length in zip(batch.ids, log_probs.cpu().numpy(), lengths.tolist(), strict=True):
            found[id_] = halved(row[:length])
    return found


def halved(row: np.ndarray) -> np.ndarray:
    """(T, V) in float16, each frame's best symbol still its best: where rounding has made two equal, it is raised."""
    rounded = np.clip(row, LOWEST, None).astype(np.float16)
    frames, best = np.arange(len(row)), row.argmax(axis=1) if len(row) else np.zeros(0, int)
    lost = rounded.argmax(axis=1) != best if len(row) else np.zeros(0, bool)
    frames, best = frames[lost], best[lost]
    rounded[frames, best] = np.nextafter(rounded[frames, best], np.float16(np.inf))
    return rounded

"""Compute a trained model's outputs for whole sets once, and store them in the run folder.

All decoders use the same log-probabilities. Outputs of hidden layers are for use in other programs (Doetsch2016 §3).
"""

import logging
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from rich.progress import track
from torch import nn

from asr_ablations.data.batch import Batch
from asr_ablations.data.datamodule import Speech, collate
from asr_ablations.data.description import content_hash
from asr_ablations.data.utterances import Utterance
from asr_ablations.experiment.utterances import utterance_row
from asr_ablations.runs.identity import content
from asr_ablations.runs.layout import ACTIVATIONS, LOG_PROBS
from asr_ablations.runs.reader import LogProbsRecord, UnreadableFileError, read_record
from asr_ablations.tools.content_keys import content_key, hash_file, hash_targets, library_versions
from asr_ablations.training.auxiliary import Activations, is_auxiliary
from asr_ablations.training.trained_model import Trained
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.files import whole_file, write_json
from asr_verdicts.record import UtteranceRow

log = logging.getLogger(__name__)

LOWEST = np.finfo(np.float16).min
FORMAT = 1  # version of the stored file formats; increase it whenever a format changes
MODEL = "model."  # prefix of the model's layer names within the task
TASK, READER = "asr_ablations.training.task", "asr_ablations.data.audio"
"""Modules that affect log-probabilities, besides the components chosen in the config."""

Precision: TypeAlias = Callable[[], AbstractContextManager[object]]
"""Function that creates the context in which the forward pass runs."""


@dataclass(frozen=True)
class LogProbs:
    """The log-probabilities of one set.

    - file: .npy file with an array (frames of all utterances, V) in float16, in nats
    - lengths: number of frames of each utterance (N,)
    - seconds: duration of the forward pass on `device`
    - activations: .npy file with the outputs (frames, D) of the auxiliary loss's layer in float16; None if not needed
    """

    name: str
    file: Path
    utterances: list[Utterance]
    lengths: list[int]
    seconds: float
    device: str
    activations: Path | None = None

    @property
    def audio_seconds(self) -> float:
        return sum(utterance.duration for utterance in self.utterances)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Start and end of each utterance's rows in the file, as in a slice."""
        ends = np.cumsum(self.lengths, dtype=np.int64).tolist()
        return [(end - length, end) for end, length in zip(ends, self.lengths, strict=True)]

    def read(self) -> list[np.ndarray]:
        """Return an array (length, V) of log-probabilities for each utterance."""
        rows = open_rows(self.file)
        return [rows[begin:end] for begin, end in self.spans]

    def rows_with(self, texts: Sequence[str]) -> list[UtteranceRow]:
        """Return a row of utterances.csv for each utterance. texts: hypotheses in the order of `utterances`."""
        pairs = zip(self.utterances, texts, strict=True)
        return [utterance_row(self.name, utterance, utterance.text, text) for utterance, text in pairs]


def open_rows(file: Path) -> np.ndarray:
    """Map an array of frames (T, V) from a file into memory. Raise ValueError if the file is incomplete."""
    rows: np.ndarray = np.load(file, mmap_mode="r")
    return rows


def stored_log_probs(
    trained: Trained, name: str, device: torch.device, precision: Precision, with_activations: bool = False
) -> LogProbs:
    """Return a set's log-probabilities from the run folder. Compute and store them first if they are missing.

    with_activations: whether to also store the outputs of the auxiliary loss's layer. Raise UsageError if different
    utterances have the same id.
    """
    speech = read_set(trained, name)
    utterances = unique_utterances(name, speech.utterances)
    key = log_probs_key(trained, utterances, device, getattr(speech.store, "condition_key", None))
    file = trained.folder / LOG_PROBS / f"{name.replace('/', '+')}-{key}.npy"
    activations = file.with_suffix(".activations.npy") if with_activations else None
    if (index := _read_stored(file, activations, len(utterances))) is None:
        file.parent.mkdir(exist_ok=True)
        _compute(trained, name, utterances, file, activations, device, precision)
        index = read_record(file.with_suffix(".json"), LogProbsRecord)
    return LogProbs(name, file, utterances, index.lengths, index.seconds, index.device, activations)


def read_set(trained: Trained, name: str) -> Speech:
    """Return a set of the run's data. Read the set first if it has not been read yet."""
    if name not in trained.data.sets:
        trained.data.read(name)
    return trained.data.sets[name]


def unique_utterances(name: str, utterances: Iterable[Utterance]) -> list[Utterance]:
    """Return the distinct utterances, sorted by id. Raise UsageError if different utterances have the same id."""
    by_id: dict[str, Utterance] = {}
    for utterance in utterances:
        if by_id.setdefault(utterance.id, utterance) != utterance:
            raise UsageError(f"{name}: two utterances have the id {utterance.id}")
    return [by_id[id_] for id_ in sorted(by_id)]


def log_probs_key(
    trained: Trained, utterances: Iterable[Utterance], device: torch.device, condition: str | None = None
) -> str:
    """Return twelve hexadecimal digits of a hash over everything that affects log-probabilities.

    The hash covers the checkpoint, the config, the source code of features and model, the utterances with their audio,
    the device, and the key of the condition that alters the audio, if any.
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
        **({} if condition is None else {"condition": condition}),
    )


def _read_stored(file: Path, activations: Path | None, utterances: int) -> LogProbsRecord | None:
    """Return the record of stored log-probabilities, or None if they are missing or damaged. Damage causes a warning.

    activations: optional file that must have as many frames as the log-probabilities.
    """
    try:
        index = read_record(file.with_suffix(".json"), LogProbsRecord)
        rows, frames = open_rows(file), sum(index.lengths)
        if activations is not None and len(open_rows(activations)) != frames:
            fault = f"{activations.name} does not have {frames} frames"
        elif (len(index.lengths), rows.shape[:-1], rows.dtype) == (utterances, (frames,), np.float16):
            return index
        else:
            described = f"{rows.shape} values of {rows.dtype}"
            fault = f"{described}, recorded as {frames} frames of {len(index.lengths)} utterances"
    except FileNotFoundError:
        return None
    except UnreadableFileError as error:
        fault = f"{error.path.name}: {error.reason}"
    except (OSError, ValueError, EOFError) as error:
        fault = str(error)
    log.warning("%s is damaged and will be computed again: %s", file, fault)
    return None


def _compute(
    trained: Trained,
    name: str,
    utterances: list[Utterance],
    file: Path,
    activations: Path | None,
    device: torch.device,
    precision: Precision,
) -> None:
    """Compute the log-probabilities of a set, and write them together with a JSON file that describes them.

    activations: file for the outputs of the auxiliary loss's layer; None writes none.
    """
    started = time.perf_counter()
    trained.data.pinned = device.type == "cuda"
    task, loader = trained.task.to(device), trained.data.evaluation_dataloader(name)
    by_id: dict[str, np.ndarray] = {}
    layer_by_id: dict[str, np.ndarray] = {}
    for batch in track(loader, f"log-probabilities of {name}", transient=True, disable=not sys.stdout.isatty()):
        with torch.inference_mode(), precision(), Activations(task.model) as kept:
            log_probs, lengths = task(batch.to(device))
        for id_, row, length in zip(batch.ids, log_probs.cpu().numpy(), lengths.tolist(), strict=True):
            by_id[id_] = halved(row[:length])
        if activations is not None and (outputs := kept.take()) is not None:
            for id_, output, length in zip(batch.ids, outputs.half().cpu().numpy(), lengths.tolist(), strict=True):
                layer_by_id[id_] = output[:length]
    rows = np.concatenate([by_id[utterance.id] for utterance in utterances])
    description = {
        "set": name,
        "shape": list(rows.shape),
        "unit": "nats",
        "checkpoint": trained.checkpoint.name,
        "alphabet": trained.task.alphabet.key,
        "device": str(device),
        "seconds": time.perf_counter() - started,
        "ids": [utterance.id for utterance in utterances],
        "lengths": [len(by_id[utterance.id]) for utterance in utterances],
    }
    if activations is not None:
        with whole_file(activations, ending=".npy") as temporary:
            np.save(temporary, np.concatenate([layer_by_id[utterance.id] for utterance in utterances]))
    with whole_file(file, ending=".npy") as temporary:  # renamed to `file` only after the JSON file is written
        np.save(temporary, rows)
        write_json(file.with_suffix(".json"), description)


def halved(row: np.ndarray) -> np.ndarray:
    """Round log-probabilities (T, V) to float16 without changing the best symbol of any frame.

    If rounding makes another symbol equal to the best one, the best one is increased by the smallest possible step.
    """
    rounded = np.clip(row, LOWEST, None).astype(np.float16)
    best = row.argmax(axis=1)
    frames = np.flatnonzero(rounded.argmax(axis=1) != best)
    lost = frames, best[frames]
    rounded[lost] = np.nextafter(rounded[lost], np.float16(np.inf))
    return rounded


def check_layers(trained: Trained, layers: Sequence[str]) -> None:
    """Raise UsageError if one of the given names is not a layer of the model. The message lists the layers."""
    names = [name.removeprefix(MODEL) for name, _ in trained.task.named_modules() if name.startswith(MODEL)]
    names = [name for name in names if not is_auxiliary(name)]
    for name in layers:
        if name not in names:
            raise choices("activations.layers", name, [other for other in names if other.count(".") < 2])


def stored_activations(
    trained: Trained, name: str, layers: Sequence[str], device: torch.device, precision: Precision
) -> Path:
    """Return the file with the given layers' outputs for a set, which may be `train`. Compute missing outputs first.

    The file has a group for each layer, with `frames` (frames of all utterances, …) in float32 and `lengths` (N,), the
    number of frames of each utterance. `ids` (N,) lists the utterances in the same order. Utterances are computed one
    at a time, without padding. Raise UsageError if a layer is not used, or if its output is not a tensor of frames.
    """
    import h5py

    speech = read_set(trained, name)
    utterances = unique_utterances(name, speech.utterances)
    outputs_key = log_probs_key(trained, utterances, device, getattr(speech.store, "condition_key", None))
    key = content_key(12, outputs=outputs_key, layers=list(layers), format=FORMAT)
    file = trained.folder / ACTIVATIONS / f"{name.replace('/', '+')}-{key}.h5"
    if file.exists():
        return file
    file.parent.mkdir(exist_ok=True)
    places = {utterance.id: place for place, utterance in enumerate(speech.utterances)}
    trained.task.to(device)
    outputs: dict[str, Any] = {}  # each layer's output for the latest utterance
    lengths: dict[str, list[int]] = {layer: [] for layer in layers}
    with ExitStack() as stack:
        for layer in layers:
            hook = partial(_keep, outputs, layer)
            stack.enter_context(trained.task.get_submodule(f"{MODEL}{layer}").register_forward_hook(hook))
        temporary = stack.enter_context(whole_file(file, ending=".h5"))
        content = stack.enter_context(h5py.File(temporary, "w"))
        content.attrs.update({"set": name, "checkpoint": trained.checkpoint.name, "run": trained.folder.name})
        content["ids"] = [utterance.id for utterance in utterances]
        for utterance in track(utterances, f"activations of {name}", transient=True, disable=not sys.stdout.isatty()):
            batch = collate([speech[places[utterance.id]]])
            assert isinstance(batch, Batch)
            outputs.clear()
            with torch.inference_mode(), precision():
                trained.task(batch.to(device))
            for layer in layers:
                frames = _read_frames(outputs, layer, utterance.id)
                _append(content, f"{layer}/frames", frames)
                lengths[layer].append(len(frames))
        for layer in layers:
            content[f"{layer}/lengths"] = lengths[layer]
    return file


def _keep(outputs: dict[str, Any], layer: str, _module: nn.Module, _inputs: object, output: object) -> None:
    outputs[layer] = output


def _read_frames(outputs: Mapping[str, Any], layer: str, id_: str) -> np.ndarray:
    """Return a layer's output frames (T, …) for an utterance, without its other outputs such as lengths."""
    output = outputs.get(layer)
    first = output[0] if isinstance(output, tuple) else output
    if not isinstance(first, torch.Tensor) or first.dim() < 3:
        reason = "has no output" if output is None else "does not output frames"
        raise UsageError(f"activations.layers={layer}: it {reason} for utterance {id_}; expected a layer of frames")
    frames: np.ndarray = first[0].float().cpu().numpy()
    return frames


def _append(content: Any, name: str, values: np.ndarray) -> None:
    """Append rows to an HDF5 dataset in pieces, because a whole set may not fit into memory."""
    if name not in content:
        shape = values.shape[1:]
        content.create_dataset(name, (0, *shape), values.dtype, maxshape=(None, *shape), chunks=(256, *shape))
    dataset = content[name]
    before = len(dataset)
    dataset.resize(before + len(values), axis=0)
    dataset[before:] = values

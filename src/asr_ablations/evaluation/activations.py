"""Outputs of hidden layers for whole sets, as HDF5 (Doetsch2016 §3)."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.progress import track
from torch import nn

from asr_ablations.data.batch import Batch
from asr_ablations.data.dataset import collate
from asr_ablations.evaluation.log_probs import Precision, log_probs_key, unique_utterances
from asr_ablations.runs.layout import ACTIVATIONS
from asr_ablations.tools.content_keys import content_key
from asr_ablations.training.trained_model import Trained
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.files import whole_file

FORMAT = 1  # version of the stored format, increased when it changes


def check_layers(trained: Trained, layers: Sequence[str]) -> None:
    """Raise UsageError with the names of the model's layers if a name is not one of them."""
    named = dict(_get_model(trained).named_modules())
    for name in layers:
        if not name or name not in named:
            raise choices("activations.layers", name, [other for other in named if other and other.count(".") < 2])


def stored_activations(
    trained: Trained, name: str, layers: Sequence[str], device: torch.device, precision: Precision
) -> Path:
    """Return the file with the outputs of these layers for a set, or train; compute it if missing.

    Each layer has a group with `frames` (frames of all utterances, …) in float32 and `lengths` (N,), the frames of each
    utterance. `ids` (N,) are in the same order. Utterances are computed singly, without padding. Raises UsageError if a
    layer is not used, or its output is not a tensor of frames.
    """
    import h5py

    if name not in trained.data.sets:
        trained.data.read(name)
    speech = trained.data.sets[name]
    utterances = unique_utterances(name, speech.utterances)
    key = content_key(12, outputs=log_probs_key(trained, utterances, device), layers=list(layers), format=FORMAT)
    file = trained.folder / ACTIVATIONS / f"{name}-{key}.h5"
    if file.exists():
        return file
    file.parent.mkdir(exist_ok=True)
    places = {utterance.id: place for place, utterance in enumerate(speech.utterances)}
    trained.task.to(device)
    named = dict(_get_model(trained).named_modules())
    outputs: dict[str, Any] = {}  # of each layer, for the latest utterance
    lengths: dict[str, list[int]] = {layer: [] for layer in layers}
    with ExitStack() as stack:
        for layer in layers:
            hook = partial(_keep, outputs, layer)
            stack.enter_context(named[layer].register_forward_hook(hook))
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


def _get_model(trained: Trained) -> nn.Module:
    assert isinstance(trained.task.model, nn.Module)
    return trained.task.model


def _keep(outputs: dict[str, Any], layer: str, _module: nn.Module, _inputs: object, output: object) -> None:
    outputs[layer] = output


def _read_frames(outputs: Mapping[str, Any], layer: str, id_: str) -> np.ndarray:
    """Return an utterance's frames (T, …) of a layer, without other outputs of the layer such as lengths."""
    output = outputs.get(layer)
    first = output[0] if isinstance(output, tuple) else output
    if not isinstance(first, torch.Tensor) or first.dim() < 3:
        reason = "has no output" if output is None else "does not output frames"
        raise UsageError(f"activations.layers={layer}: it {reason} for utterance {id_}; expected a layer of frames")
    frames: np.ndarray = first[0].float().cpu().numpy()
    return frames


def _append(content: Any, name: str, values: np.ndarray) -> None:
    """Append rows to a dataset in a file, because a large set would not fit into memory."""
    if name not in content:
        shape = values.shape[1:]
        content.create_dataset(name, (0, *shape), values.dtype, maxshape=(None, *shape), chunks=(256, *shape))
    dataset = content[name]
    before = len(dataset)
    dataset.resize(before + len(values), axis=0)
    dataset[before:] = values

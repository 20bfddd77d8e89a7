"""Load a trained model from a run folder. Nothing in the folder is executed, because it may come from a stranger."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from asr_ablations.config.build import build
from asr_ablations.config.plain_keys import check
from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.batch import AlphabetFactory
from asr_ablations.data.datamodule import SpeechData
from asr_ablations.runs.identity import fill
from asr_ablations.runs.layout import CHECKPOINTS, CONFIG
from asr_ablations.runs.reader import first_line, read_checkpoint, read_config
from asr_ablations.runs.status import why_unfinished
from asr_ablations.tools.files import sha256
from asr_ablations.training.assembly import assemble
from asr_ablations.training.auxiliary import is_auxiliary, is_head
from asr_ablations.training.checkpoints import FOR_TRAINING_ONLY
from asr_ablations.training.contracts import Checkpoint
from asr_ablations.training.task import CTCTask
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.terminal import harmless_line


class Trained(NamedTuple):
    """A trained task in evaluation mode on the CPU, with its config, its data (not yet read) and its files."""

    cfg: DictConfig
    task: CTCTask
    data: SpeechData
    folder: Path
    checkpoint: Path


def load_run(path: str | Path, checkpoint: str = "last", root: str | None = None) -> Trained:
    """Load a run's trained model. path: the run folder, or a .ckpt file in it. root: replaces the config's data.root.

    Raise UsageError if the run is not finished (unless `path` is a .ckpt file), if its config would build anything but
    components, or if the checkpoint is damaged, does not fit the config, or contains more than weights and plain data.
    """
    folder, file = find(Path(path), checkpoint)
    cfg = checked_config(folder)
    if root is not None:
        cfg.data.root = root
    # the optimizer state is twice as large as the weights, so it is freed before the model is built
    weights = {key: value for key, value in read_checkpoint(file).items() if key not in FOR_TRAINING_ONLY}
    try:
        task, data = assemble(cfg, build(cfg.data), _restore_alphabet(cfg, weights, file))
    except (OmegaConfBaseException, AttributeError) as error:
        raise UsageError(f"{folder / CONFIG}: from another version, or incomplete: {first_line(error)}") from error
    try:
        task.on_load_checkpoint(weights)
        if problems := compare_tensors(_select_tensors(task.state_dict()), _select_tensors(weights["state_dict"])):
            raise ValueError(problems)
        task.load_state_dict(weights["state_dict"])
    except (ValueError, KeyError, RuntimeError) as error:
        raise UsageError(f"{file}: does not fit {folder / CONFIG}: {first_line(error)}") from error
    return Trained(cfg, task.eval(), data, folder, file)


def _restore_alphabet(cfg: DictConfig, weights: Checkpoint, file: Path) -> Alphabet:
    factory: AlphabetFactory = build(cfg.alphabet)
    try:
        return factory.restore(weights["alphabet"])
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{file}: it contains no alphabet of the kind in this run's config") from error


def find(path: Path, checkpoint: str) -> tuple[Path, Path]:
    """Return the run folder and checkpoint file for a path to either. Raise UsageError if one of them is missing."""
    if checkpoint not in ("last", "best"):
        raise choices("checkpoint", checkpoint, ("last", "best"))
    if path.suffix == ".ckpt":
        if not path.is_file():
            raise UsageError(f"{path}: there is no such checkpoint")
        for folder in path.parents[:2]:
            if (folder / CONFIG).is_file():
                return folder, path
        raise UsageError(f"{path}: not in a run folder (no {CONFIG} next to it or in the folder above)")
    if not (path / CONFIG).is_file():
        raise UsageError(f"{path}: not a run folder (it has no {CONFIG}); expected outputs/<sweep>/<run>")
    if reason := why_unfinished(path):
        raise UsageError(f"{path}: this run is not finished: {reason} (to use it anyway, pass a .ckpt in it)")
    file = path / CHECKPOINTS / f"{checkpoint}.ckpt"
    if not file.is_file():
        raise UsageError(f"{path}: it has no {CHECKPOINTS}/{checkpoint}.ckpt")
    return path, file


def checked_config(folder: Path) -> DictConfig:
    """Read and check a run's config. Raise UsageError if it is damaged or would build anything but components."""
    cfg, file = OmegaConf.create(read_config(folder)), folder / CONFIG
    try:
        if "model" not in cfg or "data" not in cfg:
            raise UsageError(f"{file}: not the config of a run: it has no `model` or no `data`")
        fill(cfg)
        check(cfg)
    except (OmegaConfBaseException, AttributeError) as error:
        raise UsageError(f"{file}: not the config of a run: {first_line(error)}") from error
    return cfg


NAMED = 4  # number of problems that a message lists; further ones are only counted
EXTRA = "_extra_state"  # suffix of state_dict keys for state that is not weights and follows from the config


def start_from(task: CTCTask, file: Path, expected: str, parts: Sequence[str] | None) -> None:
    """Copy weights and running statistics from a checkpoint to the task's model.

    expected: SHA-256 that the file must have. Raise UsageError if it differs or if the weights do not fit.
    parts: names of the layers to copy, as in model.txt, for example `recurrent` or `recurrent.0`. None copies all
      layers except an auxiliary loss, whose name is `auxiliary`.
    """
    if (actual := sha256(file)) != expected:
        raise UsageError(f"weights_sha256={expected}: the SHA-256 of {file} is {actual}")
    checkpoint = read_checkpoint(file)
    state = _select_tensors(checkpoint["state_dict"])
    given = {key.removeprefix("model."): value for key, value in state.items() if key.startswith("model.")}
    assert isinstance(task.model, torch.nn.Module)
    model = _select_tensors(task.model.state_dict())
    if not any(map(is_auxiliary, parts or ())):
        given, model = ({key: each[key] for key in each if not is_auxiliary(key)} for each in (given, model))
    for part in parts or ():
        if not _choose_parts(model, [part]):
            raise choices("weights_parts", part, sorted({key.partition(".")[0] for key in model}))
    chosen = _choose_parts(model, parts)
    settings = checkpoint.get("settings") if any(key.startswith("encoder.") for key in chosen) else None
    if isinstance(settings, dict) and (words := list_changes(settings, getattr(task.model, "settings", {}))):
        raise UsageError(f"{file}: an encoder of another size: expected {' '.join(words)}")
    if problems := compare_tensors(chosen, _choose_parts(given, parts)):
        hint = "" if parts else " (weights_parts=[…] copies only the parts that fit)"
        raise UsageError(f"{file}: does not fit this model: {problems}{hint}")
    last = next((key for key in reversed(model) if not is_head(key)), "").rpartition(".")[0]
    if any(key.startswith(f"{last}.") or is_head(key) for key in chosen):
        try:
            task.alphabet.check_state(checkpoint.get("alphabet"))
        except ValueError as error:
            raise UsageError(f"{file}: {error}; list the parts without {last} in weights_parts") from error
    task.model.load_state_dict({key: given[key] for key in chosen}, strict=False)


def list_changes(settings: Mapping[str, object], current: Mapping[str, object]) -> list[str]:
    """Return overrides for the settings of converted weights that differ from the current values."""
    texts = {key: json.dumps(value, separators=(",", ":")).replace('"', "") for key, value in settings.items()}
    return [harmless_line(f"{key}={texts[key]}") for key, value in settings.items() if current.get(key) != value]


def _choose_parts(state: Mapping[str, torch.Tensor], parts: Sequence[str] | None) -> dict[str, torch.Tensor]:
    beginnings = ("",) if parts is None else tuple(f"{part}." for part in parts)
    return {key: value for key, value in state.items() if f"{key}.".startswith(beginnings)}


def _select_tensors(state: Mapping[str, object]) -> dict[str, torch.Tensor]:
    return {key: value for key, value in state.items() if isinstance(value, torch.Tensor) and not key.endswith(EXTRA)}


def compare_tensors(model: Mapping[str, torch.Tensor], given: Mapping[str, torch.Tensor]) -> str:
    """List the first few reasons why the given weights do not fit the model. Return "" if they fit."""
    problems = [f"{key} is not in the file" for key in model if key not in given]
    problems += [f"{key} is only in the file" for key in given if key not in model]
    for key in [key for key in model if key in given]:
        actual, expected = given[key], model[key]
        if actual.shape != expected.shape:
            problems.append(f"{key} is {list(actual.shape)} in the file and {list(expected.shape)} in the model")
        elif actual.is_floating_point() != expected.is_floating_point():
            problems.append(f"{key} is {actual.dtype} in the file and {expected.dtype} in the model")
        elif expected.isfinite().all() and not actual.isfinite().all():
            problems.append(f"{key} holds values that are not finite")
    more = f"; and {len(problems) - NAMED} more" if problems[NAMED:] else ""
    return "; ".join(problems[:NAMED]) + more

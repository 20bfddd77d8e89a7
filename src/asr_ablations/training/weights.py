"""A training that starts from given weights. Their file can be a stranger's: nothing in it is executed."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import torch

from asr_ablations.runs.checkpoint import read_checkpoint
from asr_ablations.tools.errors import UsageError, choices
from asr_ablations.tools.files import sha256
from asr_ablations.training.task import CTCTask

NAMED = 4
"""Weights that a message names; it counts the rest."""
EXTRA = "_extra_state"
"""What a model keeps beside tensors; it is the config's and not that of the weights."""


def start_from(task: CTCTask, file: Path, expected: str, parts: Sequence[str] | None) -> None:
    """Give the task's model the weights and running statistics of a checkpoint. expected: the SHA-256 of the file;
    parts: names of layers as model.txt has them, `recurrent` or `recurrent.0`; None for the whole model.

    Raises UsageError for another file than expected, one that holds more than weights, and weights that do not fit,
    which are named.
    """
    if (actual := sha256(file)) != expected:
        raise UsageError(f"weights_sha256={expected}: of {file}, the SHA-256 is {actual}")
    checkpoint = read_checkpoint(file)
    given = {
        key.removeprefix("model."): value
        for key, value in checkpoint["state_dict"].items()
        if key.startswith("model.") and isinstance(value, torch.Tensor)
    }
    assert isinstance(task.model, torch.nn.Module)
    own = {key: value for key, value in task.model.state_dict().items() if not key.endswith(EXTRA)}
    given = {key: value for key, value in given.items() if not key.endswith(EXTRA)}
    chosen = _chosen(own, parts)
    problems = _problems(chosen, {key: given[key] for key in _chosen(given, parts, known=own)})
    if problems:
        more = f"; and {len(problems) - NAMED} more" if problems[NAMED:] else ""
        hint = "" if parts else " (weights_parts=[…] takes the parts that fit)"
        raise UsageError(f"{file}: does not fit this model: {'; '.join(problems[:NAMED])}{more}{hint}")
    last = next(reversed(own), "").rpartition(".")[0]
    characters = str(checkpoint.get("alphabet", ""))
    if any(key.startswith(f"{last}.") for key in chosen) and characters != task.alphabet.characters:
        raise UsageError(
            f"{file}: its output is of the alphabet {characters!r}, this run's is {task.alphabet.characters!r}; "
            f"weights_parts takes the parts without {last}"
        )
    task.model.load_state_dict({key: given[key] for key in chosen}, strict=False)


def _chosen(
    state: Mapping[str, torch.Tensor], parts: Sequence[str] | None, known: Iterable[str] | None = None
) -> dict[str, torch.Tensor]:
    """The entries of these parts. Raises UsageError for a part that no entry of `known`, by default of these, has."""
    if parts is None:
        return dict(state)
    names = list(known or state)
    for part in parts:
        if not any(_within(key, part) for key in names):
            raise choices("weights_parts", part, sorted({key.partition(".")[0] for key in names}))
    return {key: value for key, value in state.items() if any(_within(key, part) for part in parts)}


def _within(key: str, part: str) -> bool:
    return key == part or key.startswith(f"{part}.")


def _problems(own: Mapping[str, torch.Tensor], given: Mapping[str, torch.Tensor]) -> list[str]:
    """What keeps the given weights from taking the place of the model's own, an entry for each."""
    lacking = [f"{key} is not in it" for key in own if key not in given]
    shapes = [
        f"{key} is {list(given[key].shape)} there and {list(value.shape)} here"
        for key, value in own.items()
        if key in given and given[key].shape != value.shape
    ]
    return [*shapes, *lacking, *(f"{key} is only there" for key in given if key not in own)]

"""The record of one run that has a result."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, Union

from asr_ablations.tools.files import Json


@dataclass(frozen=True)
class RunRecord:
    """Everything that a run left in its folder.

    metrics: rows of metrics.csv, numbers or None; utterances: rows of utterances.csv, counts as int, none for a run
    that diverged. model: the trained weights that were tested, as <id of the run>/<file of the checkpoint>; records
    with the same model differ in their decoder alone, and can be paired; "" where it is not known. searched: a search
    proposed this run, so that it may have been chosen for its luck. diverged_at: the step, counted from 1, at which the
    loss was no finite number; None for a finished run. place: among the runs that its sweep named, from 0; None where
    that is not known.
    """

    folder: Path
    config: Json
    overrides: list[str]
    summary: Json
    metrics: list[dict[str, float | None]]
    utterances: list[Json]
    environment: Json
    data: Json
    model: str = ""
    searched: bool = False
    diverged_at: int | None = None
    place: int | None = None

    @property
    def seed(self) -> int:
        return int(self.config["seed"])


Shape: TypeAlias = Union[type, dict[str, "Shape"], list["Shape"], tuple["Shape", ...], "Each", None]
"""A type, null, an object with its keys (those with ? at their end may be missing; more may be there), a list of one
shape, one of several shapes, or an object with any keys.
"""


@dataclass(frozen=True)
class Each:
    """An object of any keys, every value of one shape."""

    shape: Shape


NAMES: dict[type | None, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    dict: "object with keys",
    None: "null",
}

RATES: Shape = {
    "wer": float, "cer?": float, "cer_longer?": float, "loss?": (float, None), "utterances?": int, "words?": int,
}  # fmt: skip
SETS = Each(RATES)
STATUS: Shape = {
    "status": str, "reason?": str, "started?": str, "seconds?": float, "pid?": int, "host?": str, "diverged?": int,
}  # fmt: skip
SUMMARY: Shape = {
    "sets": SETS, "test_sets": [str], "id?": str, "name?": str, "epochs?": int, "steps?": int, "parameters?": int,
    "best_validation_wer?": (float, None), "seconds?": Each(float), "audio_hours_per_second?": (float, None),
}  # fmt: skip
ENVIRONMENT: Shape = {
    "started?": str, "id?": str, "behaviour?": int, "data_fingerprint?": str, "command?": [str],
    "composed?": ({"config_name": (str, None), "config_dir": (str, None)}, None), "versions?": Each(str),
    "hardware?": {"threads?": int, "gpus?": [str]}, "resumed?": [dict],
    "code?": {"commit?": str, "dirty_diff?": str, "files?": Each(str)},
}  # fmt: skip
DATA: Shape = {"sets?": Each({"sha256?": (str, None), "utterances?": int}), "fingerprint?": str}
CONFIG: dict[str, Shape] = {"overrides?": [str], "ablation?": (dict, None)}
RUN_CONFIG: Shape = {"seed": int, **CONFIG}
MANIFEST: Shape = {"arms?": [{"id": str}], "launches?": [dict], "space?": (dict, None)}
PROGRESS: Shape = {
    "epoch": int, "epochs": int, "batch": int, "batches": float, "loss": (float, None), "wer": (float, None),
    "seconds_left": float,
}  # fmt: skip
LOG_PROBS: Shape = {"lengths": [int], "seconds": float, "device": str}
EVALUATION: Shape = {
    "name": str, "decoder": dict, "files": Each({"name": str, "sha256": str}), "checkpoint": str, "sets": SETS,
    "tuning": ({"set": str, "trials": int, "chosen": dict}, None), "test_sets": [str], "ablation?": (dict, None),
}  # fmt: skip


def fault(content: object, shape: Shape, place: str = "") -> str | None:
    """What is wrong with the content, in words; None where it has the shape. place: of the content, for the words."""
    if isinstance(shape, tuple):
        faults = [fault(content, one, place) for one in shape]
        return None if None in faults else faults[0]
    if isinstance(shape, list):
        items = dict(enumerate(content)) if isinstance(content, list) else None
        return _first(items, dict.fromkeys(items or {}, shape[0]), place) if items is not None else _no("list", place)
    if isinstance(shape, (dict, Each)):
        if not isinstance(content, dict):
            return _no(NAMES[dict], place)
        if isinstance(shape, Each):
            return _first(content, dict.fromkeys(content, shape.shape), place)
        if missing := [key for key in shape if not key.endswith("?") and key not in content]:
            return f"{place or 'it'} has no {', '.join(missing)}"
        return _first(content, {key.removesuffix("?"): inner for key, inner in shape.items()}, place)
    return None if _is(content, shape) else _no(NAMES[shape], place)


def _first(content: dict[Any, Any], shapes: dict[Any, Shape], place: str) -> str | None:
    """The first fault among the values of these keys."""
    inner = (fault(content[key], shapes[key], f"{place}.{key}".lstrip(".")) for key in shapes if key in content)
    return next((words for words in inner if words is not None), None)


def _no(kind: str, place: str) -> str:
    return f"{place or 'it'} is no {kind}"


def _is(content: object, shape: type | None) -> bool:
    if shape is None or isinstance(content, bool):
        return content is None and shape is None
    return isinstance(content, (int, float) if shape is float else shape)

"""Finished runs of other sweeps, taken over where the content is the same: nothing is trained twice."""

import os
from pathlib import Path

from omegaconf import OmegaConf

from asr_ablations.runs.identity import BEHAVIOUR, content, differences
from asr_ablations.runs.launches import searched_arms
from asr_ablations.runs.layout import STATUS
from asr_ablations.runs.process import load_frozen
from asr_ablations.runs.reader import UnreadableFileError, read_config, read_environment
from asr_ablations.runs.records import KEPT_ASIDE
from asr_ablations.runs.status import RESULTS, fate_of
from asr_ablations.sweep.arm import FrozenArm


def take_over(arm: FrozenArm) -> Path | None:
    """Link the arm's folder to a run of another sweep beside this one that has the same content and a result.

    Returns the folder that was linked; None where there is none. A run that a search proposed is none: it may have been
    chosen for its luck.
    """
    if arm.folder.is_symlink() and not arm.folder.exists():
        arm.folder.unlink()  # what it was taken from has been deleted
    if arm.folder.exists() or arm.folder.is_symlink():
        return None
    for folder in sorted(arm.folder.parent.parent.glob(f"*/*-{arm.id}/{STATUS}")):
        other = folder.parent.resolve()
        if not KEPT_ASIDE.search(other.name) and _is_same(other, arm):
            arm.folder.parent.mkdir(parents=True, exist_ok=True)
            arm.folder.symlink_to(os.path.relpath(other, arm.folder.parent.resolve()), target_is_directory=True)
            return other
    return None


def _is_same(other: Path, arm: FrozenArm) -> bool:
    """Whether a run has a result, is of the arm's content, and was chosen by nobody."""
    try:
        environment = read_environment(other)
        if fate_of(other).state not in RESULTS or environment.get("id") != arm.id:
            return False
        if environment.get("behaviour") != BEHAVIOUR or arm.id in searched_arms(other.parent):
            return False
        return not differences(content(OmegaConf.create(read_config(other))), content(load_frozen(arm.config)))
    except (FileNotFoundError, UnreadableFileError):
        return False

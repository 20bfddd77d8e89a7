"""Damage in the folder of a run, seen before anything continues from it or takes its result."""

import csv
import os
from pathlib import Path

from asr_ablations.runs import layout
from asr_ablations.runs.reader import read_config, read_environment, readable
from asr_ablations.runs.record import Status
from asr_ablations.runs.records import read_run
from asr_ablations.runs.status import RESULTS, fate, status_of
from asr_verdicts.errors import UsageError

GROWING = (layout.METRICS, layout.LOSSES, layout.TRANSCRIPTS)
"""Tables that are cut to what the checkpoint has seen: the last line of an interrupted run may be half a line."""


def damage(folder: Path) -> str | None:
    """The fault of a run's files, in one line; None for a whole run, and without a run.

    Raises UsageError where a file cannot be read now, as without the permission: that says nothing of the file.
    """
    if not folder.is_dir():
        return None
    try:
        status = status_of(folder)
        if status is not None and fate(status, folder).state in RESULTS:
            read_run(folder)
            return None
        if not _has_begun(folder, status):
            return None
        for name, read in ((layout.CONFIG, read_config), (layout.ENVIRONMENT, read_environment)):
            if status is not None or (folder / name).exists():
                read(folder)
        for path in filter(Path.exists, (folder / name for name in GROWING)):
            _read_roughly(path)
    except FileNotFoundError as error:
        return f"{folder}: {Path(str(error.filename)).name} is missing"
    except UsageError as error:
        if isinstance(error.__cause__, OSError) and not isinstance(error.__cause__, FileNotFoundError):
            raise
        return str(error)
    return None


def _has_begun(folder: Path, status: Status | None) -> bool:
    """True if the run itself has recorded anything of worth: of an arm that was killed before, its launcher has written
    a status, and its config may be there.
    """
    own = [layout.ENVIRONMENT, layout.SUMMARY, layout.CHECKPOINTS, *GROWING]
    if status is None or status.pid is not None:
        own.append(layout.CONFIG)
    return any(os.path.lexists(folder / name) for name in own)


def _read_roughly(path: Path) -> None:
    with readable(path), path.open(newline="", encoding="utf-8") as file:
        for _ in csv.DictReader(file):
            pass

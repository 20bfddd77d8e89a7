"""What was declared of a sweep before its first result, and every look at its results since then.

Looking often makes chance look like an effect, so a verdict has to know how often it was done.
"""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from asr_ablations.runs.launches import launches
from asr_ablations.runs.layout import LEASES, LOOKS
from asr_ablations.runs.reader import UnreadableFileError, read_looks
from asr_ablations.tools.files import write_json
from asr_ablations.tools.machine import one_at_a_time


@dataclass(frozen=True)
class Look:
    """One look at the results. when: UTC, ISO 8601; arms: seeds seen by the name of the arm; runs: `evidence` of the
    runs seen; complete: whether all runs that were declared had ended. baseline, metric, set: the question; procedure:
    of statistics.procedure, by its name.
    """

    when: str
    arms: dict[str, int]
    runs: str
    complete: bool
    baseline: str
    metric: str
    set: str
    procedure: str

    @property
    def question(self) -> tuple[str, ...]:
        """What makes two looks one: the same evidence, and the same question to it."""
        return self.runs, self.baseline, self.metric, self.set, self.procedure


def declared(sweep: Path) -> frozenset[str] | None:
    """The ids of the runs of the first launch: what was declared before any result was known. None for a search, whose
    results decide what it runs, and where there is no manifest.
    """
    recorded = launches(sweep)
    return frozenset(recorded[0]["arms"]) if recorded and not recorded[0]["search"] else None


def evidence(ids: Iterable[str]) -> str:
    """A hash over the ids of the runs that were seen, whatever their order: 16 hexadecimal digits."""
    return hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()[:16]


def looks(folder: Path) -> list[Look]:
    """The looks at a sweep, or at the evaluations of a run, the first one first. Raises UnreadableFileError for a
    damaged file: a lost history of looks must not read as none.
    """
    try:
        recorded = read_looks(folder)
    except FileNotFoundError:
        return []
    try:
        return [Look(**{field.name: look[field.name] for field in fields(Look)}) for look in recorded]
    except (KeyError, TypeError) as error:
        raise UnreadableFileError(folder / LOOKS, f"a look without {error}") from error


def record_look(folder: Path, look: Look) -> str | None:
    """Add a look to the folder, unless the same evidence was asked the same question before.

    Returns a warning where it cannot be recorded, as in a folder of somebody else's, and None otherwise.
    """
    try:
        (folder / LEASES).mkdir(exist_ok=True)
        with one_at_a_time(folder / LEASES / f"{LOOKS}.lock", f"{folder}: waits for another comparison"):
            recorded = looks(folder)
            if look.question not in {other.question for other in recorded}:
                write_json(folder / LOOKS, {"looks": [asdict(one) for one in [*recorded, look]]})
    except UnreadableFileError as error:
        return f"this look was not recorded: {error}"
    except OSError as error:
        return f"this look was not recorded: {folder / LOOKS}: {os.strerror(error.errno or 0)}"
    return None

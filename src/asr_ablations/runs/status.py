"""What became of a run."""

from pathlib import Path

from asr_ablations.runs.lease import owner
from asr_ablations.runs.reader import UnreadableFileError, read_status
from asr_ablations.tools.errors import Stopped
from asr_ablations.tools.files import Json

RUNNING, DONE, FAILED, PRUNED = "running", "done", "failed", "pruned"
STILL_RUNNING = "still running"


class Pruned(Exception):  # noqa: N818
    """The run was ended because it does worse than others: neither done nor failed, and it can continue."""


def status_of(folder: Path) -> Json | None:
    """The status that a run recorded; None where none has begun."""
    try:
        return read_status(folder)
    except FileNotFoundError:
        return None


def why_unfinished(folder: Path) -> str | None:
    """What became of a run that is not done; None for one that is."""
    try:
        status = status_of(folder)
    except UnreadableFileError as error:
        return f"damaged: {error.path.name} cannot be read"
    if status is None:
        return "did not start"
    name = status.get("status")
    if name == DONE:
        return None
    if name == RUNNING:
        return f"{STILL_RUNNING}: {holder}" if (holder := owner(folder)) else "ended without a message"
    return f"{name}: {status.get('reason', 'no reason given')}"


def reason(error: BaseException) -> str:
    """Why a run ended, in one line. Too little memory is named as such: it comes under a dozen names."""
    if isinstance(error, (KeyboardInterrupt, Stopped)):
        return str(error) or "interrupted"
    message = " ".join(f"{type(error).__name__}: {error}".split())
    lack_of_memory = ("out of memory", "can't allocate memory", "cannot allocate memory", "std::bad_alloc")
    if isinstance(error, MemoryError) or any(words in message.lower() for words in lack_of_memory):
        return f"out of memory: {message}"
    return message

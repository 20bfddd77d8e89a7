"""The checkpoint from which a run continues."""

import logging
from pathlib import Path

from asr_ablations.runs.checkpoint import read_checkpoint
from asr_ablations.runs.folder import Run
from asr_ablations.runs.layout import last_checkpoint
from asr_ablations.runs.status import reason
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.files import free_name
from asr_ablations.tools.machine import rank
from asr_ablations.training.contracts import Checkpoint

log = logging.getLogger(__name__)


def earlier_checkpoint(record: Run) -> Checkpoint | None:
    """The last checkpoint of an earlier attempt at this run. Where it is damaged, or another run's, all checkpoints are
    put aside, and the run starts anew. Raises UsageError where it cannot be read now: nothing is changed then.
    """
    path = last_checkpoint(record.folder)
    if not path.exists():
        return None
    try:
        checkpoint = read_checkpoint(path)
        _check_resumable(checkpoint, record.id)
    except UsageError as error:
        if not rank():
            log.warning("%s; the run starts anew, and its checkpoints are kept in %s", error, _put_aside(path.parent))
        return None
    except (OSError, MemoryError) as error:
        raise UsageError(f"{path}: it cannot be read now: {reason(error)}; the same command continues later") from error
    if not rank():
        position = checkpoint["position"]
        epoch, batch = position["epoch"] + 1, position["batches"]
        print(f"continues from epoch {epoch}, batch {batch}: {record.folder}", flush=True)
    return checkpoint


def _check_resumable(checkpoint: Checkpoint, run: str) -> None:
    """Raises UsageError for a checkpoint from which a run with this id cannot continue."""
    try:
        owner = checkpoint["run"]["id"]
        numbers = [checkpoint["position"]["epoch"], checkpoint["position"]["batches"], checkpoint["run"]["rows"]]
        ranks_ = len(checkpoint["ranks"])
    except (KeyError, TypeError) as error:
        raise UsageError(f"last.ckpt: no checkpoint to continue from: it lacks {error}") from error
    if not ranks_ or not all(isinstance(number, int) and number >= 0 for number in numbers):
        raise UsageError("last.ckpt: no checkpoint to continue from: its position is no number")
    if owner != run:
        raise UsageError(f"last.ckpt: it belongs to the run {owner}, and this one is {run}")


def _put_aside(checkpoints: Path) -> Path:
    """Rename a folder of checkpoints to a free name beside it; nothing is overwritten, the best one is kept with it."""
    return checkpoints.rename(free_name(checkpoints))

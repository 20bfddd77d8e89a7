"""The DataLoader of speech: batches, or one line that names the utterance that went wrong."""

import multiprocessing
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress

import torch
from torch.utils.data import DataLoader

from asr_ablations.data.dataset import Speech, Unreadable, collate
from asr_ablations.data.utterance import Batch, Utterance
from asr_ablations.tools.errors import UsageError


class SpeechLoader(DataLoader):
    """Batches of one set in the order of `sampler`, read by `workers` processes of one thread each, or in this one.

    It asks the sampler for the batches only when the first is wanted: Lightning makes the first iterator of a fit
    before it tells the sampler the epoch, which matters after a resume.
    """

    dataset: Speech

    def __init__(self, speech: Speech, sampler: Iterable[list[int]], workers: int) -> None:
        if workers:
            speech.watch(workers)
        super().__init__(
            speech,
            batch_sampler=sampler,
            collate_fn=collate,
            num_workers=workers,
            persistent_workers=workers > 0,
            pin_memory=torch.cuda.is_available(),
            # of its own: a loader draws a seed at each pass, and torch's global stream belongs to dropout
            generator=torch.Generator(),
        )

    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]
        """Raises UsageError for an utterance that cannot be read, and for a worker that died over one."""
        try:
            for batch in super().__iter__():
                if isinstance(batch, Unreadable):
                    raise UsageError(batch)
                yield batch
        except (RuntimeError, OSError, EOFError) as error:
            raise explained(error, self.dataset) from error


def explained(error: BaseException, speech: Speech) -> BaseException:
    """What torch raises for a worker that died as an error that names the utterance; any other error itself.

    torch says "DataLoader worker …", or meets the end of a pipe when it fetches what the worker had still handed over.
    """
    if not isinstance(error, (OSError, EOFError)) and "DataLoader worker" not in str(error):
        return error
    names = ", ".join(f"{u.id} ({u.audio})" for u in _died(speech))
    return UsageError(f"a process that reads audio died; it was at utterance {names}") if names else error


def _died(speech: Speech) -> list[Utterance]:
    """What workers that are no more read last. A process closes its pipes a moment before it is gone."""
    for _ in range(20):
        with suppress(RuntimeError):  # torch's handler of SIGCHLD may say it again, right here
            if died := speech.left_by({process.pid for process in multiprocessing.active_children()}):
                return died
            time.sleep(0.05)
    return []

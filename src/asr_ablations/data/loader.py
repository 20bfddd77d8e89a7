"""The DataLoader of speech: batches, or a one-line error that names the utterance that failed."""

import multiprocessing
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import torch
from torch.utils.data import DataLoader

from asr_ablations.data.batch import Batch
from asr_ablations.data.dataset import Speech, Unreadable, collate
from asr_ablations.data.utterance import Utterance
from asr_ablations.tools.errors import UsageError

AHEAD = 2
"""Batches that the reading thread has ready, or in work."""


class SpeechLoader(DataLoader):
    """Batches of one set in the order of `sampler`, read by `workers` processes of one thread each, or in this one.

    What only has to be copied, as from a cache, one thread of this process reads ahead in their place: a batch from
    another process goes through shared memory that is new for each, which takes 6 to 8 times as long.

    pinned: whether batches are put where a GPU fetches them while it computes.

    The sampler is used only when the first batch is needed: Lightning creates the first iterator of a fit before it
    sets the sampler's epoch, which matters after a resume.
    """

    dataset: Speech

    def __init__(self, speech: Speech, sampler: Iterable[list[int]], workers: int, *, pinned: bool = False) -> None:
        self.ahead = workers > 0 and not speech.needs_processes
        if self.ahead:
            workers = 0
        if workers:
            speech.watch(workers)
        super().__init__(
            speech,
            batch_sampler=sampler,
            collate_fn=collate,
            num_workers=workers,
            persistent_workers=workers > 0,
            pin_memory=pinned,
            # its own generator: a loader draws a seed at each pass, and torch's global stream belongs to dropout
            generator=torch.Generator(),
        )

    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]  # torch promises a private class
        """Raises UsageError for an utterance that cannot be read, and for a worker that died over one."""
        try:
            batches = super().__iter__()
            for batch in read_ahead(batches) if self.ahead else batches:
                if isinstance(batch, Unreadable):
                    raise UsageError(batch)
                yield batch
        except (RuntimeError, OSError, EOFError) as error:
            raise explained(error, self.dataset) from error


def read_ahead(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Yield the batches, in their order; a thread makes the next ones meanwhile. NumPy, reading and pinning release the
    interpreter's lock. An error comes where its batch would. The thread ends with the iteration.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="reader") as thread:
        try:
            waiting = deque(thread.submit(next, batches, None) for _ in range(AHEAD))
            while (batch := waiting.popleft().result()) is not None:
                waiting.append(thread.submit(next, batches, None))
                yield batch
        finally:
            thread.shutdown(cancel_futures=True)


def explained(error: BaseException, speech: Speech) -> BaseException:
    """Return an error that names the utterance if torch raised `error` because a worker died, else the error itself.

    torch says "DataLoader worker …", or reaches the end of a pipe when it fetches what the worker had still sent.
    """
    if not isinstance(error, (OSError, EOFError)) and "DataLoader worker" not in str(error):
        return error
    names = ", ".join(f"{u.id} ({u.audio})" for u in _last_read_by_dead_workers(speech))
    return UsageError(f"a process that reads audio died; it was at utterance {names}") if names else error


def _last_read_by_dead_workers(speech: Speech) -> list[Utterance]:
    # a process closes its pipes a moment before it ends, so it may take several looks
    for _ in range(20):
        with suppress(RuntimeError):  # torch's handler of SIGCHLD may raise again, right here
            if utterances := speech.abandoned({process.pid for process in multiprocessing.active_children()}):
                return utterances
            time.sleep(0.05)
    return []

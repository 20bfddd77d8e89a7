"""Work on many files at once."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from asr_ablations.tools.machine import cores
from asr_ablations.tools.progress_bar import bar

A = TypeVar("A")
B = TypeVar("B")
CHUNK = 64
"""Files per task: a task per file would cost more than what is looked up."""


def in_threads(work: Callable[[A], B], items: Sequence[A], title: str) -> Iterator[list[B]]:
    """Apply `work` to all items in order, in chunks, with a progress bar. Threads suffice: reading, hashing and
    decoding release the interpreter's lock.
    """
    chunks = [items[i : i + CHUNK] for i in range(0, len(items), CHUNK)]
    pool = ThreadPoolExecutor(cores())
    try:
        with bar(title, len(items)) as advance:
            for done in pool.map(lambda chunk: [work(item) for item in chunk], chunks):
                yield done
                advance(len(done))
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C does not wait for the rest

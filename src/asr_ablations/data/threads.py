"""Work on many files in parallel, with results in order."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from asr_ablations.tools.machine import cores
from asr_verdicts.terminal import bar

A = TypeVar("A")
B = TypeVar("B")


def in_threads(work: Callable[[A], B], items: Sequence[A], title: str, chunk: int = 64) -> Iterator[list[B]]:
    """Yield the results of `work` for all items, `chunk` at a time and in order, with a progress bar.

    Threads are sufficient, because reading, hashing and decoding release the global interpreter lock. One task per file
    would cost more than a look-up.
    """
    threads = cores()
    pool = ThreadPoolExecutor(threads)
    parts = (items[begin : begin + chunk] for begin in range(0, len(items), chunk))
    futures = (pool.submit(lambda part: [*map(work, part)], part) for part in parts)
    try:
        with bar(title, len(items)) as advance:
            waiting = deque(islice(futures, 2 * threads))
            while waiting:
                results = waiting.popleft().result()
                waiting.extend(islice(futures, 1))
                yield results
                advance(len(results))
    finally:
        pool.shutdown(cancel_futures=True)  # so that Ctrl-C does not wait for all items

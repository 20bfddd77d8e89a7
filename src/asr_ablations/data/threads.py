"""Work on many files in parallel, with results in order."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
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
    waiting: deque[Future[list[B]]] = deque()
    try:
        with bar(title, len(items)) as advance:
            for begin in range(0, len(items), chunk):
                waiting.append(pool.submit(lambda part: [*map(work, part)], items[begin : begin + chunk]))
                if len(waiting) > 2 * threads:
                    yield (results := waiting.popleft().result())
                    advance(len(results))
            while waiting:
                yield (results := waiting.popleft().result())
                advance(len(results))
    finally:
        pool.shutdown(cancel_futures=True)  # so that Ctrl-C does not wait for all items

"""Work on many files side by side, in their order."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from asr_ablations.tools.machine import cores
from asr_verdicts.terminal import bar

A = TypeVar("A")
B = TypeVar("B")


def in_threads(work: Callable[[A], B], items: Sequence[A], title: str, chunk: int = 64) -> Iterator[list[B]]:
    """Yield the results of `work` for all items, `chunk` at a time, with a progress bar; a few chunks are in advance.

    Threads suffice: reading, hashing and decoding release the interpreter's lock. A task per file would cost more than
    looking it up.
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
        pool.shutdown(cancel_futures=True)  # Ctrl-C does not wait for the rest

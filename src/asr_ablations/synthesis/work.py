"""Many speakers' recordings at once."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from typing import Any

from rich.console import Console
from rich.progress import Progress

from asr_ablations.synthesis.recordings import Job
from asr_ablations.tools.machine import cores

SPEED = 200  # s of speech a second a core: for plans only


def do_all(work: Callable[[Job], object], jobs: list[Job], title: str) -> None:
    """`work` on every job that is not done yet, in a process a core where that is worth it, with progress."""
    missing = [job for job in jobs if not job.record.exists()]
    expected = sum(job.expected_seconds for job in missing)
    processes = min(cores(), len(missing))
    with _progress(title, sum(job.expected_seconds for job in jobs)) as advance:
        advance(sum(job.expected_seconds for job in jobs) - expected)
        if processes <= 1 or expected / SPEED < 5:  # s: below, starting processes costs more than it saves
            import torch

            threads = torch.get_num_threads()
            torch.set_num_threads(1)
            try:
                for job in missing:
                    work(job)
                    advance(job.expected_seconds)
            finally:
                torch.set_num_threads(threads)
            return
        # spawn: the parent may hold threads or CUDA, which a fork would break.
        with ProcessPoolExecutor(processes, get_context("spawn"), initializer=_start_worker) as pool:
            futures = {pool.submit(work, job): job for job in missing}
            try:
                for future in as_completed(futures):
                    future.result()
                    advance(futures[future].expected_seconds)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise


def _start_worker() -> None:
    import signal

    import torch

    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops its workers

    def follow_parent() -> None:
        parent = parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)  # the parent was killed: nobody will read this worker's results

    threading.Thread(target=follow_parent, daemon=True).start()


@contextmanager
def _progress(title: str, total: float) -> Iterator[Any]:
    console = Console(stderr=True)
    if console.is_terminal:
        with Progress(console=console) as bar:
            task = bar.add_task(title, total=total)
            yield lambda amount: bar.advance(task, amount)
        return
    done = 0.0

    def report(amount: float) -> None:
        nonlocal done
        before, done = done, done + amount
        if int(10 * before / total) != int(10 * done / total):
            print(f"{title}: {100 * done / total:.0f} %", file=sys.stderr, flush=True)

    print(title, file=sys.stderr, flush=True)
    yield report

"""The recordings of many speakers at once, in parallel processes."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context, parent_process

from asr_ablations.synthesis.recordings import Job
from asr_ablations.tools.machine import cores
from asr_ablations.tools.progress_bar import bar

SPEED = 200  # seconds of speech per second and core: for plans only
WORTH_PROCESSES = 5.0  # seconds of work below which starting processes costs more than it saves


def do_all(work: Callable[[Job], object], jobs: list[Job], title: str) -> None:
    """Apply `work` to every job without a record, with progress; in one process per core if that is worth it."""
    open_jobs = [job for job in jobs if not job.record.exists()]
    expected = sum(job.expected_seconds for job in open_jobs)
    processes = min(cores(), len(open_jobs))
    print(title, file=sys.stderr, flush=True)
    with bar(title, sum(job.expected_seconds for job in jobs)) as advance:
        advance(sum(job.expected_seconds for job in jobs) - expected)
        if processes <= 1 or expected / SPEED < WORTH_PROCESSES:
            _do_in_this_process(work, open_jobs, advance)
        else:
            _do_in_processes(work, open_jobs, advance, processes)


def _do_in_this_process(work: Callable[[Job], object], jobs: list[Job], advance: Callable[[float], None]) -> None:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for job in jobs:
            work(job)
            advance(job.expected_seconds)
    finally:
        torch.set_num_threads(threads)


def _do_in_processes(
    work: Callable[[Job], object], jobs: list[Job], advance: Callable[[float], None], processes: int
) -> None:
    # spawn: the parent may hold threads or CUDA, which a fork would break.
    with ProcessPoolExecutor(processes, get_context("spawn"), initializer=_start_worker) as pool:
        futures = {pool.submit(work, job): job for job in jobs}
        try:
            for future in as_completed(futures):
                future.result()
                advance(futures[future].expected_seconds)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _start_worker() -> None:
    import torch

    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops its workers

    def follow_parent() -> None:
        parent = parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)  # the parent was killed: nobody will read this worker's results

    threading.Thread(target=follow_parent, daemon=True).start()

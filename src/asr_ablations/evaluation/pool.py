"""A pool of processes that decodes log-probabilities from disk, for all decoders of a command.

pyctcdecode keeps models in a class variable, which other processes only receive by fork. With spawn it decodes in one
process without a message, and with forkserver it raises KeyError. The processes are forked before anything runs on a
GPU, share the memory of language models, and use one thread each.
"""

import functools
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from asr_ablations.config.plain_keys import MOST_PROCESSES
from asr_ablations.evaluation.log_probs import LogProbs, open_rows
from asr_ablations.tools.checks import whole
from asr_ablations.tools.machine import cores
from asr_ablations.tools.signals import end_with, start_of
from asr_ablations.training.contracts import Decoder
from asr_verdicts.errors import UsageError

_decoders: list[Decoder] = []  # the decoders of this process and its forks


@dataclass(frozen=True)
class Decoded:
    """A decoded set: texts in the order of utterances, wall-clock seconds, and CPU seconds of all processes."""

    texts: list[str]
    seconds: float
    core_seconds: float


class Pool:
    """Forked processes with the decoders, as a context manager."""

    def __init__(self, decoders: Sequence[Decoder], processes: int) -> None:
        _decoders[:] = decoders
        self.processes = processes
        fork = multiprocessing.get_context("fork")
        self._executor = ProcessPoolExecutor(
            processes, fork, initializer=_set_up, initargs=(os.getpid(), start_of(os.getpid()))
        )
        list(self._executor.map(abs, range(processes)))  # forks the processes now

    def decode(
        self,
        decoder: int,
        log_probs: LogProbs,
        values: Mapping[str, float] | None = None,
        advance: Callable[[], None] | None = None,
    ) -> Decoded:
        """Decode every utterance of a set.

        decoder: its number in the list. values: replace attributes of the decoder (alpha, beta, …). advance: called
        after each utterance. Raises UsageError if a process dies.
        """
        started = time.perf_counter()
        task = functools.partial(_decode, decoder, dict(values or {}), log_probs.file)
        spans = log_probs.spans
        size = max(1, min(16, len(spans) // (4 * self.processes)))
        texts, core_seconds = [], 0.0
        try:
            for text, seconds in self._executor.map(task, spans, chunksize=size):
                texts.append(text)
                core_seconds += seconds
                if advance is not None:
                    advance()
        except BrokenProcessPool as error:
            raise UsageError("a decoding process died, probably because memory ran out: try fewer processes=…, or a "
                             "smaller decoder.beam_width or language model") from error  # fmt: skip
        return Decoded(texts, time.perf_counter() - started, core_seconds)

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._executor.shutdown(wait=kind is None, cancel_futures=True)
        _decoders.clear()


def count_processes(requested: object) -> int:
    """Return the key `processes` as a number; auto means one per core. Raises UsageError for invalid values."""
    if requested == "auto":
        return cores()
    return whole("processes", requested, 1, MOST_PROCESSES, also="auto")


def _set_up(parent: int, started: float) -> None:
    """Prepare a process of the pool."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    end_with(parent, started)  # other processes keep the queue open, so each would wait for ever
    torch.set_num_threads(1)  # more would wait for threads that a fork does not have


def _decode(number: int, values: dict[str, float], file: Path, span: tuple[int, int]) -> tuple[str, float]:
    """Return the text of the frames `span` (from, to) in a file of log-probabilities, and the CPU seconds used."""
    started = time.process_time()
    decoder = _decoders[number]
    with temporary_values(decoder, values):
        row = torch.from_numpy(_rows(file)[slice(*span)].astype(np.float32))
        (text,) = decoder(row[None], torch.tensor([len(row)]))
    return text, time.process_time() - started


_rows = functools.lru_cache(maxsize=64)(open_rows)


@contextmanager
def temporary_values(decoder: Decoder, values: Mapping[str, float]) -> Iterator[None]:
    """Change attributes of the decoder within a block."""
    previous = {key: getattr(decoder, key) for key in values}
    vars(decoder).update(values)
    try:
        yield
    finally:
        vars(decoder).update(previous)

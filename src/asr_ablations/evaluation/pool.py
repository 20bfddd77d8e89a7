"""Decode stored log-probabilities in a pool of processes, with all decoders of a command.

The processes must be forked, because pyctcdecode stores its models in a class variable. With the start method spawn, it
would silently decode in one process, and with forkserver, it would raise KeyError. Forked processes also share the
memory of language models. They start before anything runs on a GPU, and use one thread each.
"""

import functools
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from asr_ablations.config.plain_keys import MOST_PROCESSES
from asr_ablations.evaluation.outputs import LogProbs, open_rows
from asr_ablations.tools.checks import whole
from asr_ablations.tools.machine import cores
from asr_ablations.tools.signals import end_with, start_of
from asr_ablations.training.contracts import Decoder, RescoringDecoder
from asr_verdicts.errors import UsageError

_decoders: list[Decoder] = []  # the decoders of this process, which forked processes inherit


@dataclass(frozen=True)
class Decoded:
    """Transcripts of a set in the order of its utterances, wall-clock seconds, and CPU seconds of all processes."""

    texts: list[str]
    seconds: float
    core_seconds: float


class Pool:
    """A context manager with forked processes, each of which has all decoders."""

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
        """Decode every utterance of a set. Raise UsageError if a process dies.

        - decoder: position of the decoder in the list of decoders
        - values: weights that replace the decoder's own weights, such as alpha and beta
        - advance: function to call after each utterance
        """
        started = time.perf_counter()
        # each process's decoder keeps the weights of its last call, so every call sets all weights
        weights = {key: getattr(_decoders[decoder], key) for key in getattr(_decoders[decoder], "tuned", ())}
        task = functools.partial(_decode, decoder, {**weights, **(values or {})}, log_probs.file, log_probs.activations)
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
    """Return the number of decoding processes; auto means one per core. Raise UsageError for a wrong value."""
    if requested == "auto":
        return cores()
    return whole("processes", requested, 1, MOST_PROCESSES, also="auto")


def _set_up(parent: int, started: float) -> None:
    """Set up a process of the pool. parent, started: the parent's process id and start time, which identify it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    end_with(parent, started)  # otherwise, if the parent died, the processes would wait forever for each other
    torch.set_num_threads(1)  # with more threads, torch would wait for threads that the fork did not copy


def _decode(
    number: int, weights: Mapping[str, float], file: Path, activations: Path | None, span: tuple[int, int]
) -> tuple[str, float]:
    """Decode the frames in `span` (begin and end) of a file, and return the transcript and the CPU seconds used.

    activations: file with the activations of the same frames, for a RescoringDecoder.
    """
    started = time.process_time()
    decoder = _decoders[number]
    vars(decoder).update(weights)
    row = _read_span(file, span)
    if activations is not None:
        assert isinstance(decoder, RescoringDecoder)
        return decoder.rescore(row, _read_span(activations, span)), time.process_time() - started
    (text,) = decoder(row[None], torch.tensor([len(row)]))
    return text, time.process_time() - started


def _read_span(file: Path, span: tuple[int, int]) -> torch.Tensor:
    return torch.from_numpy(_rows(file)[slice(*span)].astype(np.float32))


_rows = functools.lru_cache(maxsize=64)(open_rows)

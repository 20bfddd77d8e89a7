"""One pool of processes that decodes for a whole job, from log-probabilities on disk.

pyctcdecode's models live in a class variable: they reach processes by fork only (under spawn it decodes in one process
without a word, under forkserver it raises KeyError). The processes are forked before anything runs on a GPU, share the
language models' memory, and use one thread each.
"""

import functools
import multiprocessing
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from asr_ablations.evaluation.log_probs import Stored
from asr_ablations.tools.errors import UsageError, choices
from asr_ablations.tools.machine import cores

_decoders: list[Any] = []
"""Of this process and of those forked from it."""


@dataclass(frozen=True)
class Decoded:
    """One set decoded. texts: in the order of its utterances; seconds: of the clock; core_seconds: in all processes."""

    texts: list[str]
    seconds: float
    core_seconds: float


class Pool:
    """`processes` forks that hold the decoders. Leave it as a context."""

    def __init__(self, decoders: Sequence[Any], processes: int) -> None:
        _decoders[:] = decoders
        self.processes = processes
        self._executor = ProcessPoolExecutor(processes, multiprocessing.get_context("fork"), initializer=_begin)
        list(self._executor.map(abs, range(processes)))  # forks them now

    def decode(
        self, decoder: int, stored: Stored, values: dict[str, float] | None = None, advance: Any = None
    ) -> Decoded:
        """Every utterance of a set, by the decoder of this number with `values` (alpha, beta …) in place of its own.
        advance: called for each utterance. Raises UsageError where a process died.
        """
        started = time.perf_counter()
        task = functools.partial(_decode, decoder, values or {}, stored.file)
        ends = np.cumsum(stored.lengths).tolist()
        spans = [(end - length, end) for end, length in zip(ends, stored.lengths, strict=True)]
        size = max(1, min(16, len(spans) // (4 * self.processes)))
        texts, spent = [], 0.0
        try:
            for text, seconds in self._executor.map(task, spans, chunksize=size):
                texts.append(text)
                spent += seconds
                if advance is not None:
                    advance()
        except BrokenProcessPool as error:
            raise UsageError("a decoding process died, most likely for want of memory: fewer processes=…, or a "
                             "smaller decoder.beam_width or language model") from error  # fmt: skip
        return Decoded(texts, time.perf_counter() - started, spent)

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._executor.shutdown(wait=kind is None, cancel_futures=True)
        _decoders.clear()


def process_count(asked: Any) -> int:
    """Processes that the key `processes` asks for; auto: one a core that this process may use."""
    if asked == "auto":
        return cores()
    if isinstance(asked, bool) or not isinstance(asked, int) or asked < 1:
        raise choices("processes", asked, "auto, or a whole number, 1 or more")
    return asked


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    torch.set_num_threads(1)  # more would wait for threads that the fork has not got


def _decode(number: int, values: dict[str, float], file: Path, span: tuple[int, int]) -> tuple[str, float]:
    started = time.process_time()
    decoder = _decoders[number]
    with changed(decoder, values):
        row = torch.from_numpy(_mapped(file)[span[0] : span[1]].astype(np.float32))
        (text,) = decoder(row[None], torch.tensor([len(row)]))
    return text, time.process_time() - started


@functools.lru_cache(maxsize=64)
def _mapped(file: Path) -> np.ndarray:
    content: np.ndarray = np.load(file, mmap_mode="r")
    return content


class changed:  # noqa: N801
    """The decoder with other weights for a while."""

    def __init__(self, decoder: Any, values: dict[str, float]) -> None:
        self.decoder, self.values = decoder, values

    def __enter__(self) -> Iterator[None] | None:
        self.kept = {key: getattr(self.decoder, key) for key in self.values}
        vars(self.decoder).update(self.values)
        return None

    def __exit__(self, *_: object) -> None:
        vars(self.decoder).update(self.kept)

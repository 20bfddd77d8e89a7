"""Trainings side by side on one device: the audio that they train together, by their number."""

import statistics
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

from omegaconf import DictConfig, OmegaConf

from asr_ablations.tools.checks import is_whole, number
from asr_ablations.tools.machine import cores, mps_is_on
from asr_benchmarks.tables import Result
from asr_benchmarks.timing import check_counts
from asr_benchmarks.worker import Worker
from asr_verdicts.errors import choices

BATCHES = 20
"""Batches that a training goes through again and again, those that its first epoch begins with."""


class Training:
    """A training in a process of its own, with steps as in `benchmark=step`. config: yaml of its run."""

    def __init__(self, config: str) -> None:
        import torch

        from asr_ablations.config.build import build
        from asr_ablations.training.assembly import device_count
        from asr_ablations.training.ddp import quiet
        from asr_benchmarks.project.step import Measured

        quiet()
        cfg = OmegaConf.create(config)
        assert isinstance(cfg, DictConfig)
        corpus = build(cfg.data)
        corpus.prepare()
        self._measured = Measured(cfg, corpus, BATCHES, torch.device("cuda" if device_count(cfg) else "cpu"))

    def train(self, seconds: float) -> float:
        """Hours of audio per second over at least so many seconds."""
        return self._measured.rate(seconds)

    def memory(self) -> float:
        """GB of memory at most: of the device, on a CPU of the process."""
        return self._measured.peak() / 1e9


def sharing(cfg: DictConfig, *, side_by_side: list[int], seconds: float, repeats: int) -> Iterator[Result]:
    """Yields, after each number of trainings side by side, a row of `sharing`.

    R: hours of audio per second of all together, the median of `repeats` times; gain: R over that of the first number;
    each: R of one of them; memory GB: the peak of one. MPS: whether processes can compute on a GPU at the same time.
    """
    if not side_by_side or not all(is_whole(count, 1) for count in side_by_side):
        raise choices("benchmark.side_by_side", side_by_side, "whole numbers, 1 or more")
    number("benchmark.seconds", seconds, above=0)
    check_counts(repeats=repeats)
    rows: list[dict[str, object]] = []
    config = OmegaConf.to_yaml(cfg, resolve=True)
    for count in side_by_side:
        rows.append(_side_by_side(config, count, seconds, repeats))
        rows[-1]["gain"] = float(str(rows[-1]["R"])) / float(str(rows[0]["R"]))
        best = max(rows, key=lambda row: float(str(row["R"])))
        figures: dict[str, object] = {"best": best["side by side"], "best gain": best["gain"], "MPS": mps_is_on()}
        yield Result(figures, {"sharing": list(rows)})


def _side_by_side(config: str, count: int, seconds: float, repeats: int) -> dict[str, object]:
    threads = max(1, cores() // count)
    with ExitStack() as stack, ThreadPoolExecutor(count) as pool:
        make = partial(Training, config)
        workers = [stack.enter_context(Worker(make, threads, wait=False)) for _ in range(count)]
        list(pool.map(lambda worker: worker.call("train", 0.0), workers))  # compiles, allocates, and waits for the last
        rates = []
        for _ in range(repeats):
            rates.append(sum(pool.map(lambda worker: worker.call("train", seconds), workers)))
        memory = max(worker.call("memory") for worker in workers)
    together = statistics.median(rates)
    return {"side by side": count, "R": together, "each": together / count, "gain": None, "memory GB": memory}

"""The interval of a ratio, and the blocks that it is measured on."""

import csv
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from asr_benchmarks.project.utilisation import Alternating, ratio_interval


@pytest.mark.parametrize("pairs", [6, 20])
def test_the_interval_holds_the_median_in_95_percent(pairs: int) -> None:
    """Holds for noise with heavy tails; 2000 trials measure the share with a standard error of 0.5 points."""
    generator = np.random.default_rng(pairs)
    hits = 0
    for _ in range(2000):
        interval = ratio_interval(np.exp(0.05 * generator.standard_t(2, pairs)).tolist(), [1.0] * pairs)
        hits += interval["ratio_low"] <= 1 <= interval["ratio_high"]
    assert hits / 2000 >= 0.94


def test_blocks_alternate_and_only_half_of_them_have_a_sampler(tmp_path: Path) -> None:
    blocks = Alternating(2, 0.01, tmp_path)
    fitter: Any = SimpleNamespace(
        is_global_zero=True,
        world_size=1,
        is_last_batch=False,
        strategy=SimpleNamespace(root_device=torch.device("cpu")),
    )
    module: Any = SimpleNamespace(device=torch.device("cpu"))
    batch = SimpleNamespace(lengths=torch.tensor([16000]))
    sampled = []
    for number in range(16):
        blocks.on_train_batch_start(fitter, module, batch, number)
        sampled.append("utilisation" in {thread.name for thread in threading.enumerate()})
        threading.Event().wait(0.03)
        blocks.on_train_batch_end(fitter, module, None, batch, number)
    assert sampled == [True, True, False, False, False, False, True, True] * 2
    assert [len(blocks.times[on]) for on in (True, False)] == [4, 4]
    assert all(seconds >= 0.06 for times in blocks.times.values() for seconds, _ in times)
    with (tmp_path / "utilisation.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) >= 4

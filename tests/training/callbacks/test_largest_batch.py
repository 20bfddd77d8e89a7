"""The largest batch is tried before the first step of a fit on a GPU, and leaves no trace."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from asr_ablations.config.build import build
from asr_ablations.data.batch import Batch, Count, Seconds
from asr_ablations.tools.errors import UsageError
from asr_ablations.training.assembly import assemble
from asr_ablations.training.callbacks.largest_batch import check_memory, largest_batch
from asr_ablations.training.task import Scored
from tests.helpers.support import compose, tiny_overrides


def assembled(corpus: Path, *overrides: str) -> Any:
    small = ("width=8", "layers=2", "gpus=0", "dropout=0.5", "norm=batch", "augment=specaugment")
    cfg = compose(*small, *tiny_overrides(corpus), *overrides)
    task, data = assemble(cfg, build(cfg.data))
    data.setup()
    return task.train(), data


def with_memory_for(utterances: int, scored: Callable[[Batch], Scored]) -> Callable[[Batch], Scored]:
    def limited(batch: Batch) -> Scored:
        if len(batch) > utterances:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return scored(batch)

    return limited


def test_it_leaves_no_trace(tiny_corpus: Path) -> None:
    task, data = assembled(tiny_corpus, "batch.size=4")
    before = {key: value.clone() for key, value in task.model.state_dict().items()}
    random = torch.get_rng_state()
    sizes: list[int] = []
    scored = task.scored
    task.scored = lambda batch: sizes.append(len(batch)) or scored(batch)
    check_memory(task, data, nullcontext)
    assert sizes == [4]
    assert all(torch.equal(value, before[key]) for key, value in task.model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random)
    assert all(weights.grad is None for weights in task.parameters())


@pytest.mark.parametrize(
    ("batch", "room", "line"),
    [
        (["batch.size=4"], 2, r"batch.size=4: its largest batch, 4 utterances of up to .* batch.size=2 fits$"),
        (["batch.size=4"], 0, r"a smaller one, or precision=16$"),
        (["batch.size=null", "batch.seconds=4"], 1, r"batch.seconds=4: .* batch.seconds=\d+\.\d fits$"),
    ],
)
def test_too_little_memory_is_one_line_with_what_fits(
    batch: list[str], room: int, line: str, tiny_corpus: Path
) -> None:
    task, data = assembled(tiny_corpus, *batch)
    task.scored = with_memory_for(room, task.scored)
    with pytest.raises(UsageError, match=line):
        check_memory(task, data, nullcontext)


def test_the_largest_batch_is_the_longest_once_padded() -> None:
    durations = np.array([3.0, 12.0, 7.0, 1.0, 6.0, 5.0])
    assert largest_batch(durations, Count(2, 1)).tolist() == [1, 2]
    # 20 s of audio: one of 12 s, two of 7 s (14), three of 6 s, 5 s and 3 s (18)
    assert largest_batch(durations, Seconds(20.0, 1)).tolist() == [4, 5, 0]
    assert largest_batch(durations, Count(16, 1)).tolist() == [1, 2, 4, 5, 0, 3]
    assert largest_batch(np.empty(0), Count(16, 1)).tolist() == []

"""Averaged weights against averages computed by hand, and where they are used."""

from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from asr_ablations.components.averaging.base import weights_of
from tests.helpers.fits import fit, model_of
from tests.helpers.support import component


class Watch(pl.Callback):
    """The weights after every step, and those that validation saw."""

    def __init__(self) -> None:
        self.trained: list[torch.Tensor] = []
        self.ends: list[int] = []
        self.validated: list[torch.Tensor] = []

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        self.trained.append(flat(pl_module.model))
        if trainer.is_last_batch:
            self.ends.append(len(self.trained) - 1)

    def on_validation_batch_start(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        self.validated.append(flat(pl_module.model))


def flat(model: torch.nn.Module) -> torch.Tensor:
    """Parameters and running statistics, one behind another."""
    return torch.cat([t.flatten().double() for t in weights_of(model)])


def watched(corpus: Path, folder: Path, *overrides: str) -> tuple[Watch, torch.Tensor]:
    watch = Watch()
    task = fit(corpus, folder, *overrides, callbacks=(watch,))
    return watch, flat(task.model)


@pytest.fixture(scope="module")
def plain(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Watch:
    return watched(tiny_corpus, tmp_path_factory.mktemp("plain"))[0]


def expected_ema(plain: Watch, decay: float) -> list[torch.Tensor]:
    averages = [plain.trained[0]]
    for weights in plain.trained[1:]:
        averages.append(decay * averages[-1] + (1 - decay) * weights)
    return [averages[i] for i in plain.ends]


def expected_last(plain: Watch, count: int) -> list[torch.Tensor]:
    ends = [plain.trained[i] for i in plain.ends]
    return [torch.stack(ends[max(0, i + 1 - count) : i + 1]).mean(dim=0) for i in range(len(ends))]


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (("averaging=ema", "averaging.decay=0.7"), lambda plain: expected_ema(plain, 0.7)),
        (("averaging=last", "averaging.count=2"), lambda plain: expected_last(plain, 2)),
    ],
    ids=["ema", "last"],
)
def test_validation_checkpoints_and_the_end_have_the_average_and_training_does_not(
    overrides: tuple[str, ...], expected: Any, plain: Watch, tiny_corpus: Path, tmp_path: Path
) -> None:
    watch, final = watched(tiny_corpus, tmp_path, *overrides)
    assert all(torch.equal(a, b) for a, b in zip(watch.trained, plain.trained, strict=True)), "training is untouched"
    averages = expected(plain)
    batches = len(watch.validated) // len(averages)
    for epoch, average in enumerate(averages):
        torch.testing.assert_close(watch.validated[epoch * batches], average, rtol=1e-5, atol=1e-6)
        names = [key for key, value in model_of(tmp_path, epoch).items() if value.is_floating_point()]
        kept = model_of(tmp_path, epoch)
        total = sum(float(kept[key].double().sum()) for key in names)
        assert total == pytest.approx(float(average.sum()), rel=1e-5)
    torch.testing.assert_close(final, averages[-1], rtol=1e-5, atol=1e-6)
    assert not torch.equal(averages[-1], plain.trained[-1])


def test_none_is_the_weights_as_trained(plain: Watch) -> None:
    batches = len(plain.validated) // len(plain.ends)
    for epoch, end in enumerate(plain.ends):
        assert torch.equal(plain.validated[epoch * batches], plain.trained[end])


@pytest.mark.parametrize(
    ("name", "change"),
    [("ema", {"decay": 1.0}), ("ema", {"decay": 0}), ("last", {"count": 0}), ("last", {"count": 2.5})],
)
def test_values_out_of_range_are_refused(name: str, change: dict[str, Any]) -> None:
    (key,) = change
    with pytest.raises(ValueError, match=f"{key}={change[key]}"):
        component("averaging", name, **change)

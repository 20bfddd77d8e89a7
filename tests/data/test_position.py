"""Training stopped in the middle of an epoch continues with exactly the missing batches."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint

from asr_ablations.config.build import build
from asr_ablations.training.assembly import assemble, trainer
from tests.helpers.support import compose, tiny_overrides

EPOCHS, BATCHES = 3, 5


@dataclass
class Story(pl.Callback):
    """What happened in a fit: (epoch, ids of a batch), (epoch, "validation"), (epoch, "end")."""

    stop_in: tuple[int, int] | None = None
    events: list[tuple[int, Any]] = field(default_factory=list)

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.events.append((trainer.current_epoch, batch_idx, tuple(batch.ids)))

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if (trainer.current_epoch, batch_idx) == self.stop_in:
            raise InterruptedError

    def on_validation_end(self, trainer, pl_module):
        self.events.append((trainer.current_epoch, "validation", trainer.global_step))

    def on_train_epoch_end(self, trainer, pl_module):
        self.events.append((trainer.current_epoch, "end", trainer.global_step))


def fit(root: Path, story: Story, *callbacks: Any, resume: Path | None = None, workers: int = 0) -> torch.Tensor:
    """The weights after training, or after the stop of the story."""
    small = ["width=8", "layers=1", "gpus=0", "norm=none", "dropout=0", "order=shuffled", f"max_epochs={EPOCHS}"]
    cfg = compose(*small, *tiny_overrides(root), "batch.size=2", f"workers={workers}")
    task, data = assemble(cfg, build(cfg.data))
    try:
        trainer(cfg, 0, [], [story, *callbacks]).fit(task, data, ckpt_path=resume and str(resume), weights_only=True)
    except InterruptedError:
        assert story.stop_in is not None
    return torch.cat([p.detach().flatten() for p in task.model.parameters()])


@pytest.fixture(scope="module")
def undisturbed(tiny_corpus: Path) -> tuple[Story, torch.Tensor]:
    story = Story()
    weights = fit(tiny_corpus, story)
    assert len(story.events) == EPOCHS * (BATCHES + 2)
    return story, weights


@pytest.mark.parametrize(
    ("every", "stop_in", "kept", "workers"),
    [
        (1, (0, 3), (0, 3), 0),
        (1, (1, 1), (1, 1), 1),
        (2, (2, 4), (2, 4), 1),
        (3, (1, 3), (1, 1), 0),
        (7, (2, 1), (1, 2), 1),
        (5, (1, 2), (1, 0), 1),
        ("validation", (1, 4), (0, BATCHES + 1), 0),  # its epoch has yet to end
        ("epoch", (2, 1), (2, 0), 1),
    ],
)
def test_a_resumed_run_sees_the_missing_batches_and_ends_with_the_same_weights(
    undisturbed: tuple[Story, torch.Tensor],
    tiny_corpus: Path,
    tmp_path: Path,
    every: int | str,
    stop_in: tuple[int, int],
    kept: tuple[int, int],
    workers: int,
) -> None:
    """`kept`: the epoch and the batch in it that the last checkpoint, one every `every` batches or after each
    validation or epoch, continues with."""
    whole, weights = undisturbed

    def saving() -> ModelCheckpoint:
        when = (
            {"every_n_train_steps": every} if isinstance(every, int) else {"save_on_train_epoch_end": every == "epoch"}
        )
        return ModelCheckpoint(tmp_path, filename="last", enable_version_counter=False, **when)

    first = Story(stop_in)
    fit(tiny_corpus, first, saving(), workers=workers)
    second = Story()
    resumed = fit(tiny_corpus, second, saving(), resume=tmp_path / "last.ckpt", workers=workers)
    before = kept[0] * (BATCHES + 2) + kept[1]
    assert first.events[:before] == whole.events[:before]
    assert second.events == whole.events[before:]
    assert torch.equal(resumed, weights)

"""Pretraining layer by layer: which layers train when, and that nothing is lost where the stack grows."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from asr_ablations.tools.errors import UsageError
from tests.helpers.fits import fit, model_of
from tests.helpers.support import component, compose

GROWING = ("pretrain=layers", "layers=3", "max_epochs=4")


class Watch(pl.Callback):
    """The model at the start and end of every epoch, and the optimizer's steps of each recurrent layer."""

    def __init__(self) -> None:
        self.starts: list[dict[str, torch.Tensor]] = []
        self.ends: list[dict[str, torch.Tensor]] = []
        self.steps: list[list[int]] = []

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self.starts.append(snapshot(pl_module.model))

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self.ends.append(snapshot(pl_module.model))
        state = trainer.optimizers[0].state
        first = [next(layer.parameters()) for layer in pl_module.model.recurrent]
        self.steps.append([int(state[p]["step"]) if p in state else 0 for p in first])


def snapshot(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {key: value.detach().clone() for key, value in model.named_parameters()}


def changed(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> set[str]:
    """The recurrent layers in which any weight differs."""
    return {
        key.split(".")[1] for key in before if key.startswith("recurrent") and not torch.equal(before[key], after[key])
    }


@pytest.fixture(scope="module")
def grown(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Watch, Path, Any]:
    watch, folder = Watch(), tmp_path_factory.mktemp("grown")
    return watch, folder, fit(tiny_corpus, folder, *GROWING, callbacks=(watch,))


def test_layers_come_in_one_by_one(grown: tuple[Watch, Path, Any]) -> None:
    watch, _, _ = grown
    trained = [changed(before, after) for before, after in zip(watch.starts, watch.ends, strict=True)]
    assert trained == [{"0"}, {"0", "1"}, {"0", "1", "2"}, {"0", "1", "2"}]


def test_layers_that_stay_keep_weights_and_optimizer_state(grown: tuple[Watch, Path, Any]) -> None:
    """Growing changes no weight of any layer; Adam's count of steps goes on for the old and begins for the new."""
    watch, _, _ = grown
    for end, start in zip(watch.ends, watch.starts[1:], strict=False):
        assert all(torch.equal(end[key], start[key]) for key in end)
    assert watch.steps == [[3, 0, 0], [6, 3, 0], [9, 6, 3], [12, 9, 6]]


def test_the_end_is_the_whole_model(grown: tuple[Watch, Path, Any], tiny_corpus: Path, tmp_path: Path) -> None:
    _, _, task = grown
    whole = fit(tiny_corpus, tmp_path, "layers=3", "max_epochs=1")
    count = [sum(p.numel() for p in fitted.model.parameters()) for fitted in (task, whole)]
    assert count[0] == count[1]
    assert task.model.active_layers == 3


def test_a_model_in_its_beginnings_is_one_with_fewer_layers(grown: tuple[Watch, Path, Any]) -> None:
    """A checkpoint knows how far the stack had grown: loaded, it computes what a model of one layer does."""
    from asr_ablations.training.assembly import assemble
    from tests.helpers.support import standing_corpus

    _, folder, _ = grown
    kept = {key.removeprefix("model."): value for key, value in model_of(folder, 0).items()}
    alphabet = "abcdefghijklmnopqrstuvwxyz '"
    small = ("width=8", "gpus=0", "dropout=0")
    one, three = (assemble(compose(*small, f"layers={n}"), standing_corpus(alphabet))[0].model.eval() for n in (1, 3))
    three.load_state_dict(kept)
    one.load_state_dict({key: kept[key] for key in one.state_dict()})
    features, lengths = torch.randn(2, 40, 40), torch.tensor([40, 23])
    assert torch.equal(three(features, lengths)[0], one(features, lengths)[0])


def test_a_run_resumed_within_an_epoch_is_as_high_as_it_was(
    grown: tuple[Watch, Path, Any], tiny_corpus: Path, tmp_path: Path
) -> None:
    class Heights(pl.Callback):
        heights: list[int] = []  # noqa: RUF012

        def on_train_batch_start(self, trainer: Any, pl_module: Any, *_: Any) -> None:
            self.heights.append(pl_module.model.active_layers)

    fit(tiny_corpus, tmp_path, *GROWING, callbacks=(Heights(),), resume=grown[1] / "step=4.ckpt")
    assert Heights.heights == [2] * 2 + [3] * 6


def test_a_model_that_cannot_grow_is_refused() -> None:
    """Else the layers would all train from the start, and nobody would know."""
    task = SimpleNamespace(model=torch.nn.Linear(1, 1))
    with pytest.raises(UsageError, match="Linear has no layers that can be added later"):
        component("pretrain", "layers").setup(None, task, "fit")


def test_training_too_short_for_the_stack_is_refused() -> None:
    from asr_ablations.config.build import build

    with pytest.raises(UsageError, match="max_epochs=2: expected 3 or more"):
        build(compose("pretrain=layers", "layers=3", "max_epochs=2").pretrain)
    for epochs in (0, 1.5):
        with pytest.raises(UsageError, match=f"epochs={epochs}"):
            build(compose("pretrain=layers", f"pretrain.epochs={epochs}").pretrain)

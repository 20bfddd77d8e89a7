"""A training step on a pretended CUDA device: with no option does the host wait for it."""

import itertools
from typing import Any

import pytest
import torch

from asr_ablations.data.batch import Batch
from asr_ablations.training.assembly import assemble
from asr_ablations.training.optimizer_steps import DeviceScaler
from tests.helpers.pretended_cuda import CUDA, Waits, pretend, pretending
from tests.helpers.support import compose, group_options, standing_corpus

SMALL = ("width=8", "layers=2", "gpus=0", "logger=csv")
NOT_HERE = {
    "loss": {"aligned": "needs a run that is trained"}, "gradient": {},
    "augment": {"noise": "needs recordings, and changes waveforms before the step"}, "norm": {}, "features": {},
    "penalty": {}, "optimizer": {}, "rnn": {},
}  # fmt: skip
"""The groups whose options act within a step, and options that cannot be tried here, with the reason."""


def options() -> list[str]:
    return [f"{group}={name}" for group, out in NOT_HERE.items() for name in group_options(group) if name not in out]


def batch() -> Batch:
    """Two utterances of noise, of 1.0 and 0.8 s."""
    samples, texts = [16000, 12800], ["ab a", "b"]
    generator = torch.Generator().manual_seed(3)
    labels = ["ab ".index(character) + 1 for character in itertools.chain(*texts)]
    return Batch(
        audio=torch.randint(-3000, 3000, (sum(samples),), generator=generator, dtype=torch.int16),
        lengths=torch.tensor(samples), targets=torch.tensor(labels),
        target_lengths=torch.tensor([len(text) for text in texts]), ids=["u-0", "u-1"], texts=texts,
    )  # fmt: skip


class Unscaled:
    """A scale of 1, in the place of a scaler."""

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        return loss

    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        pass

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        optimizer.step()

    def update(self) -> None:
        pass


def step(overrides: tuple[str, ...], planted: Any = None, own_ctc: bool = True, scaler: Any = None) -> Waits:
    """What the second step of a task would wait for. planted: is called with the loss. scaler: of the loss."""
    scaler = scaler or Unscaled()
    cfg = compose(*SMALL, "alphabet.characters='ab '", *overrides)
    task, _ = assemble(cfg, standing_corpus())
    with pretending(own_ctc) as waits:
        pretend(task)
        task._device = CUDA  # what LightningModule.device reads

        def log(name: str, value: Any, batch_size: Any = 1, **_: Any) -> None:
            """As Lightning does: a number becomes a tensor on the device at once."""
            if not isinstance(value, torch.Tensor):
                waits.add(f"a number is logged: {name}")
            else:
                value.detach() * batch_size

        task.log = log  # type: ignore[method-assign,assignment]
        optimizer = task.make_optimizer(task.model.parameters())
        moved = batch().to(CUDA)
        for number in range(2):
            waits.on = number == 1
            optimizer.zero_grad()
            loss = task.training_step(moved, number)
            if planted is not None:
                planted(loss)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            task.configure_gradient_clipping(optimizer)
            scaler.step(optimizer)
            scaler.update()
            task.gradient.after_step(list(task.model.parameters()), task._log_step)
        waits.on = False
    return waits


@pytest.mark.parametrize("option", options())
def test_a_step_waits_for_nothing(option: str) -> None:
    waits = step((option,))
    assert waits.places == {}
    assert waits.mixed == {}, "tensors of two devices in one operation"


@pytest.mark.parametrize(
    "option", [f"{group}={name}" for group in ("optimizer", "gradient") for name in group_options(group)]
)
def test_a_step_under_a_scaled_loss_waits_for_nothing(option: str) -> None:
    """Whether a gradient has overflowed stays on the device; what the loss is scaled by, too."""
    waits = step((option, "precision=16"), scaler=DeviceScaler("cpu"))
    assert waits.places == {}
    assert waits.mixed == {}


@pytest.mark.parametrize("option", ["optimizer=adamw", "optimizer=momentum"])
def test_torchs_own_scaler_would_be_seen(option: str) -> None:
    scaler = torch.amp.GradScaler("cpu")
    waits = step((option, "precision=16", "+optimizer.foreach=false"), scaler=scaler)
    assert sum(waits.places.values()) == 1


def test_torchs_own_ctc_would_be_seen() -> None:
    """It copies lengths to the device: where Triton cannot compile, and only there."""
    waits = step((), own_ctc=False)
    assert sorted(place.split()[-1] for place in waits.places) == ["_ctc_loss", "_ctc_loss_backward"]


@pytest.mark.parametrize("planted", [torch.Tensor.item, bool, lambda loss: loss.cpu(), lambda loss: loss.to("cpu")])
def test_a_planted_wait_is_seen(planted: Any) -> None:
    assert sum(step((), planted).places.values()) == 1

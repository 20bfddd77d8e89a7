"""Every optimizer of conf/: it moves every parameter, downhill, and no number of its yaml is dead."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from support import component, group_options, knobs, turned

every_variant = pytest.mark.parametrize("name", group_options("optimizer"))


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def after_steps(make: Callable[..., torch.optim.Optimizer], steps: int) -> tuple[nn.Module, list[float]]:
    """The network after some steps towards zero outputs, and the losses on the way."""
    model = network()
    optimizer, x, losses = make(model.parameters()), torch.ones(5, 3).cumsum(dim=0), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses


@every_variant
def test_one_step_changes_every_parameter(name: str) -> None:
    model, _ = after_steps(component("optimizer", name), steps=1)
    for (key, before), after in zip(network().named_parameters(), model.parameters(), strict=True):
        assert not torch.equal(before, after), key


@every_variant
def test_the_loss_falls(name: str) -> None:
    _, losses = after_steps(component("optimizer", name, lr=1e-2), steps=20)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(("name", "key"), knobs("optimizer"))
def test_no_dead_knobs(name: str, key: str) -> None:
    written, changed = (
        after_steps(make, 3)[0] for make in (component("optimizer", name), turned("optimizer", name, key))
    )
    assert any(not torch.equal(a, b) for a, b in zip(written.parameters(), changed.parameters(), strict=True))

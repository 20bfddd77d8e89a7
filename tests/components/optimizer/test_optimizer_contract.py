"""Every optimizer of conf/: it moves every parameter, downhill, and no number of its yaml is dead."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from tests.helpers.every_key import exempt
from tests.helpers.support import component, group_options, knobs, turned

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


def weights_after(name: str, decay: float, gradient: float, steps: int = 1) -> float:
    parameter = nn.Parameter(torch.tensor([2.0], dtype=torch.double))
    optimizer = component("optimizer", name, lr=0.01, weight_decay=decay)([parameter])
    for _ in range(steps):
        parameter.grad = torch.tensor([gradient], dtype=torch.double)
        optimizer.step()
    return parameter.item()


COUPLED = [name for name in group_options("optimizer") if not exempt(f"optimizer={name}", "decay in the gradient")]


@pytest.mark.parametrize("name", COUPLED)
def test_weight_decay_is_l2_added_to_the_gradient(name: str) -> None:
    """λ/2 · ‖W‖² in the loss, whose gradient is λ · W. Ambroszczyk2019 §2.3.3 has λ · ‖W‖² and a "scale" of 0.0005."""
    assert weights_after(name, 0.0005, 0.3) == pytest.approx(weights_after(name, 0.0, 0.3 + 0.0005 * 2.0), abs=1e-12)


def test_weight_decay_of_adamw_is_taken_from_the_weights() -> None:
    """Loshchilov & Hutter 2019, algorithm 2: the rate times λ times the weight, whatever the gradient."""
    taken = weights_after("adamw", 0.0, 0.3) - weights_after("adamw", 0.0005, 0.3)
    assert taken == pytest.approx(0.01 * 0.0005 * 2.0, rel=1e-6)


def test_the_three_kinds_of_descent() -> None:
    """Two steps of gradient g: plain 2 g, momentum m adds m g; Nesterov's looks ahead at every step."""
    moved = [2.0 - weights_after(name, 0.0, 0.5, steps=2) for name in ("sgd", "momentum", "nesterov")]
    plain, momentum = 0.01 * 0.5, 0.9
    assert moved == pytest.approx([plain * 2, plain * (2 + momentum), plain * (2 + 2 * momentum + momentum**2)])

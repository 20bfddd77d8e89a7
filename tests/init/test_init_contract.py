"""Every initialisation, and that weights come from the seed alone."""

import math

import pytest
import torch
from torch import nn

from asr_ablations.assembly import assemble
from support import component, compose, group_options, standing_corpus

every_variant = pytest.mark.parametrize("name", group_options("init"))
RECURRENT = [nn.LSTM, nn.GRU, nn.RNN]
SIGMAS = 5.0
"""Deviations of the estimate that a test lets pass: one in two million fails by chance, and the seed is fixed."""


def initialised(name: str, module: nn.Module) -> nn.Module:
    torch.manual_seed(3)
    component("init", name)(module)
    return module


def gates(module: nn.Module) -> list[tuple[torch.Tensor, int, int]]:
    """(weights, inputs, outputs) of each matrix: a recurrent layer's are stacked by the hidden size."""
    found = []
    for name, weight in module.named_parameters():
        if weight.dim() < 2:
            continue
        field = math.prod(weight.shape[2:])
        rows = module.hidden_size if name.startswith("weight_") else len(weight)
        found += [(gate, field * weight.shape[1], field * rows) for gate in weight.detach().split(rows)]
    return found


@pytest.mark.parametrize(
    "module",
    [*(cell(90, 60) for cell in RECURRENT), nn.Linear(80, 120), nn.Conv2d(6, 10, (11, 5))],
    ids=lambda m: type(m).__name__,
)
def test_xavier_has_the_deviation_of_glorot_and_bengio(module: nn.Module) -> None:
    """2010, equation 12's normal form: N(0, 2 / (inputs + outputs)). A deviation from n draws is off by 1/√(2n)."""
    for gate, inputs, outputs in gates(initialised("xavier", module)):
        expected, count = math.sqrt(2 / (inputs + outputs)), gate.numel()
        assert abs(gate.std().item() / expected - 1) < SIGMAS / math.sqrt(2 * count)
        assert abs(gate.mean().item()) < SIGMAS * expected / math.sqrt(count)


def test_xavier_leaves_vectors() -> None:
    module = nn.GRU(9, 8)
    before = {name: p.clone() for name, p in module.named_parameters() if p.dim() < 2}
    after = dict(initialised("xavier", module).named_parameters())
    assert before
    assert all(torch.equal(after[name], p) for name, p in before.items())


def test_default_leaves_all_weights() -> None:
    module = nn.GRU(9, 8)
    before = [p.clone() for p in module.parameters()]
    assert all(torch.equal(a, b) for a, b in zip(initialised("default", module).parameters(), before, strict=True))


def weights(*overrides: str, drawn_before: int = 0) -> torch.Tensor:
    """All weights that a config's run starts from, behind one another."""
    cfg = compose("width=6", "layers=2", *overrides)
    torch.manual_seed(drawn_before)
    task, _ = assemble(cfg, standing_corpus())
    return torch.cat([p.detach().flatten() for p in task.model.parameters()])


@every_variant
def test_weights_depend_on_the_seed_alone(name: str) -> None:
    found = weights(f"init={name}", "seed=0", drawn_before=1)
    assert torch.isfinite(found).all()
    assert torch.equal(found, weights(f"init={name}", "seed=0", drawn_before=2))
    assert not torch.equal(found, weights(f"init={name}", "seed=1", drawn_before=1))


@pytest.mark.parametrize(
    "override", ["dropout=0.5", "augment=none", "order=shuffled", "optimizer=sgd", "batch.size=3", "max_epochs=2"]
)
def test_weights_do_not_depend_on_what_is_not_the_model(override: str) -> None:
    assert torch.equal(weights(), weights(override))


def test_each_initialisation_gives_other_weights() -> None:
    drawn = [weights(f"init={name}") for name in group_options("init")]
    assert all(not torch.equal(a, b) for i, a in enumerate(drawn) for b in drawn[:i])

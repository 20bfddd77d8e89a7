"""Penalties of the weights: the formula against a loop, and its gradient. What a step does with one: test_steps.py."""

import pytest
import torch
from torch import nn

from tests.helpers.support import component


def test_it_is_the_formula_of_the_thesis_with_its_gradient() -> None:
    """λ‖W‖² with λ = 0.0005 (Ambroszczyk2019 §2.3.3); its derivative is 2λW, and 0 for what is no matrix."""
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2), nn.Conv2d(1, 2, 3))
    for weights in model.parameters():
        weights.data = torch.randn(weights.shape, generator=generator)
    matrices = [weights for weights in model.parameters() if weights.dim() > 1]
    penalty = component("penalty", "l2")(model)
    squares = sum(float(w) ** 2 for weights in matrices for w in weights.detach().flatten())
    assert penalty.item() == pytest.approx(0.0005 * squares, rel=1e-5)
    penalty.backward()
    for weights in model.parameters():
        if weights.dim() > 1:
            torch.testing.assert_close(weights.grad, 2 * 0.0005 * weights.detach())
        else:
            assert weights.grad is None


def test_it_stays_finite_where_the_weights_have_16_bits() -> None:
    model = nn.Linear(300, 300, bias=False)
    nn.init.constant_(model.weight, 1.0)
    assert component("penalty", "l2", scale=1.0)(model.half()).item() == 90000  # the largest half is 65504

"""Dropout's distribution, and the stream that its masks come from."""

from typing import Any

import pytest
import torch

from asr_ablations.components.model.dropout import Dropout
from asr_ablations.tools.errors import UsageError
from asr_ablations.training.assembly import assemble
from tests.helpers.support import compose, standing_corpus

COUNT = 200_000


@pytest.mark.parametrize("rate", [0.05, 0.5, 0.9])
def test_a_share_is_dropped_and_the_mean_stays(rate: float) -> None:
    """Srivastava et al. 2014, §4 and §10: zero at the rate, the rest scaled so that the expectation is the input."""
    torch.manual_seed(1)
    y = Dropout(rate)(torch.full((COUNT,), 3.0))
    deviation = (rate * (1 - rate) / COUNT) ** 0.5
    assert (y == 0).float().mean().item() == pytest.approx(rate, abs=5 * deviation)
    torch.testing.assert_close(y[y != 0].unique(), torch.tensor([3.0 / (1 - rate)]))


def test_evaluation_and_a_rate_of_nothing_leave_the_input() -> None:
    x = torch.randn(50)
    assert torch.equal(Dropout(0.5).eval()(x), x)
    assert torch.equal(Dropout(0.0)(x), x)


def test_a_rate_that_rounds_to_one_drops_all() -> None:
    assert not Dropout(1 - 1e-12)(torch.ones(1000)).any()


def test_the_gradient_has_the_same_mask() -> None:
    x = torch.ones(1000, requires_grad=True)
    y = Dropout(0.3)(x)
    assert torch.equal(torch.autograd.grad(y.sum(), x)[0], y.detach())


@pytest.mark.parametrize("rate", [-0.1, 1.0, 1, "a", None, True, float("nan")])
def test_a_wrong_rate_is_named(rate: Any) -> None:
    with pytest.raises(UsageError, match=f"dropout={rate}: expected"):
        Dropout(rate)


def masks(count: int) -> list[torch.Tensor]:
    return [Dropout(0.5)(torch.ones(20)) for _ in range(count)]


def test_a_stored_state_of_torchs_generator_continues_the_masks() -> None:
    torch.manual_seed(5)
    masks(3)
    state = torch.get_rng_state()
    expected = masks(3)
    torch.manual_seed(6)
    torch.set_rng_state(state)
    assert all(torch.equal(a, b) for a, b in zip(masks(3), expected, strict=True))


@pytest.mark.parametrize(("override", "same"), [("rnn=gru", True), ("width=10", True), ("seed=1", False)])
def test_masks_depend_on_the_seed_and_not_on_what_was_drawn_for_the_weights(override: str, same: bool) -> None:
    result = []
    for overrides in ([], [override]):
        assemble(compose("width=6", "layers=1", *overrides), standing_corpus())
        result.append(torch.stack(masks(3)))
    assert torch.equal(*result) == same

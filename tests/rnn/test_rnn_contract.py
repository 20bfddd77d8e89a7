"""Every recurrent layer, in one direction and in both."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from asr_ablations.rnn.directions import Directions, reversal
from support import component, group_options

LENGTHS = torch.tensor([6, 0, 1, 4])
INPUTS, HIDDEN = 5, 4

every_variant = pytest.mark.parametrize("name", group_options("rnn"))
both_ways = pytest.mark.parametrize("bidirectional", [True, False])


def layer(name: str, bidirectional: bool) -> Directions:
    torch.manual_seed(1)
    return Directions(component("rnn", name), INPUTS, HIDDEN, bidirectional=bidirectional)


def inputs(lengths: torch.Tensor = LENGTHS, frames: int = 7) -> torch.Tensor:
    generator = torch.Generator().manual_seed(2)
    return torch.randn(len(lengths), frames, INPUTS, generator=generator)


@every_variant
@both_ways
def test_rows_past_a_length_are_zero_and_the_others_are_not(name: str, bidirectional: bool) -> None:
    y = layer(name, bidirectional)(inputs(), LENGTHS)
    valid = torch.arange(7)[None] < LENGTHS[:, None]
    assert y.shape == (4, 7, HIDDEN)
    assert (y[~valid] == 0).all()
    assert (y[valid].abs().sum(dim=-1) > 0).all()


@every_variant
@both_ways
def test_alone_as_in_a_batch(name: str, bidirectional: bool) -> None:
    directions, x = layer(name, bidirectional), inputs()
    together = directions(x, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = directions(x[row : row + 1, : max(1, length)], LENGTHS[row : row + 1])
        torch.testing.assert_close(together[row, :length], alone[0, :length], atol=1e-5, rtol=0)


@every_variant
@both_ways
def test_padding_is_not_read(name: str, bidirectional: bool) -> None:
    directions, x = layer(name, bidirectional), inputs()
    valid = (torch.arange(7)[None] < LENGTHS[:, None])[..., None]
    garbage = torch.where(valid, x, torch.full_like(x, 1e3))
    torch.testing.assert_close(directions(garbage, LENGTHS), directions(x, LENGTHS), atol=1e-6, rtol=0)


@every_variant
@both_ways
def test_gradients_are_finite_and_reach_every_parameter(name: str, bidirectional: bool) -> None:
    directions, x = layer(name, bidirectional), inputs().requires_grad_()
    directions(x, LENGTHS).square().sum().backward()
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()
    for parameter_name, parameter in directions.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert torch.isfinite(parameter.grad).all(), parameter_name
        assert parameter.grad.abs().sum() > 0, parameter_name


@every_variant
def test_the_backward_direction_sees_the_future(name: str) -> None:
    x, changed = inputs(), inputs()
    changed[0, 5] += 1.0
    for bidirectional in (False, True):
        directions = layer(name, bidirectional)
        first_frame = directions(changed, LENGTHS)[0, 0] - directions(x, LENGTHS)[0, 0]
        assert bool(first_frame.abs().sum() > 1e-7) == bidirectional


def torch_cell(directions: Directions) -> nn.RNNBase:
    """torch's own two-directional layer with the weights of `directions`; skips where a variant has none."""
    own = [next((m for m in d.modules() if isinstance(m, nn.RNNBase)), None) for d in directions.children()]
    if None in own:
        pytest.skip("a cell of our own: torch has nothing to compare it with")
    options = {"nonlinearity": own[0].nonlinearity} if isinstance(own[0], nn.RNN) else {}
    cell = type(own[0])(INPUTS, HIDDEN, batch_first=True, bidirectional=True, **options)
    ours = {f"{key}{end}": w for c, end in zip(own, ("", "_reverse"), strict=True) for key, w in c.state_dict().items()}
    cell.load_state_dict(ours)
    return cell


def gradients(module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    """Of a random weighting of y, by x and all parameters."""
    weights = torch.randn(y.shape, generator=torch.Generator().manual_seed(3))
    return list(torch.autograd.grad((y * weights).sum(), [x, *module.parameters()]))


@every_variant
def test_two_directions_are_torchs_own_over_a_packed_sequence(name: str) -> None:
    directions = layer(name, bidirectional=True)
    cell = torch_cell(directions)
    lengths = torch.tensor([3, 7, 1, 5])  # torch packs no empty sequence
    x, x_packed = inputs(lengths).requires_grad_(), inputs(lengths).requires_grad_()
    packed = pack_padded_sequence(x_packed, lengths, batch_first=True, enforce_sorted=False)
    padded, _ = pad_packed_sequence(cell(packed)[0], batch_first=True)
    expected, found = padded.unflatten(-1, (2, HIDDEN)).sum(dim=2), directions(x, lengths)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    for ours, theirs in zip(gradients(directions, x, found), gradients(cell, x_packed, expected), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


@every_variant
@both_ways
def test_bfloat16_autocast_on_a_cpu_leaves_float32_results(name: str, bidirectional: bool) -> None:
    directions, x = layer(name, bidirectional), inputs()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = directions(x, LENGTHS)
        from_half = directions(x.bfloat16(), LENGTHS)
    torch.testing.assert_close(found, directions(x, LENGTHS))  # the dtype too
    torch.testing.assert_close(from_half, directions(x.bfloat16().float(), LENGTHS))


def test_rnn_nonlinearity_is_not_a_dead_knob() -> None:
    results = []
    for nonlinearity in ("tanh", "relu"):
        torch.manual_seed(1)
        results.append(component("rnn", "rnn", nonlinearity=nonlinearity)(INPUTS, HIDDEN)(inputs(), LENGTHS))
    assert (results[1] >= 0).all()
    assert (results[0] < 0).any()


def test_reversal_reverses_within_the_length_and_is_its_own_inverse() -> None:
    index = reversal(torch.tensor([3, 0, 1, 4]), 4, torch.device("cpu"))
    assert index.tolist() == [[2, 1, 0, 3], [0, 1, 2, 3], [0, 1, 2, 3], [3, 2, 1, 0]]
    assert torch.equal(index.gather(1, index), torch.arange(4).expand(4, 4))

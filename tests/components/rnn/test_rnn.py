"""The contract of recurrent layers, and the lookahead."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from asr_ablations.components.model.directions import KINDS, Directions, autocast_of_recurrences
from asr_ablations.components.model.ds2 import Lookahead
from tests.helpers.support import component, group_options

LENGTHS = torch.tensor([6, 0, 1, 4])
INPUTS, HIDDEN = 5, 4

every_variant = pytest.mark.parametrize("name", group_options("rnn"))
every_way = pytest.mark.parametrize("directions", KINDS)


def layer(name: str, directions: str) -> Directions:
    torch.manual_seed(1)
    return Directions(component("rnn", name), INPUTS, HIDDEN, directions=directions)


def inputs(lengths: torch.Tensor = LENGTHS, frames: int = 7) -> torch.Tensor:
    generator = torch.Generator().manual_seed(2)
    return torch.randn(len(lengths), frames, INPUTS, generator=generator)


@every_variant
@every_way
def test_alone_as_in_a_batch(name: str, directions: str) -> None:
    recurrence, x = layer(name, directions), inputs()
    together = recurrence(x, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = recurrence(x[row : row + 1, : max(1, length)], LENGTHS[row : row + 1])
        torch.testing.assert_close(together[row, :length], alone[0, :length], atol=1e-5, rtol=0)


@every_variant
@every_way
def test_padding_is_not_read_and_zero_in_the_output(name: str, directions: str) -> None:
    recurrence, x = layer(name, directions), inputs()
    valid = torch.arange(7)[None] < LENGTHS[:, None]
    garbage = torch.where(valid[..., None], x, torch.full_like(x, 1e3))
    y = recurrence(x, LENGTHS)
    torch.testing.assert_close(recurrence(garbage, LENGTHS), y, atol=1e-6, rtol=0)
    assert y.shape == (4, 7, recurrence.size)
    assert (y[~valid] == 0).all()
    assert (y[valid].abs().sum(dim=-1) > 0).all()


@every_variant
@every_way
def test_gradients_are_finite_and_reach_every_parameter(name: str, directions: str) -> None:
    recurrence, x = layer(name, directions), inputs().requires_grad_()
    recurrence(x, LENGTHS).square().sum().backward()
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()
    for parameter_name, parameter in recurrence.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert torch.isfinite(parameter.grad).all(), parameter_name
        assert parameter.grad.abs().sum() > 0, parameter_name


@every_variant
def test_the_backward_direction_sees_the_future(name: str) -> None:
    x, changed = inputs(), inputs()
    changed[0, 5] += 1.0
    for directions in KINDS:
        recurrence = layer(name, directions)
        first_frame = recurrence(changed, LENGTHS)[0, 0] - recurrence(x, LENGTHS)[0, 0]
        assert bool(first_frame.abs().sum() > 1e-7) == (directions != "forward")


TORCHS_OWN = [
    name for name in group_options("rnn") if any(isinstance(m, nn.RNNBase) for m in layer(name, "sum").modules())
]
"""The others are cells of ours, which test_recurrence compares with these or with their own definitions."""


def torch_cell(recurrence: Directions) -> nn.RNNBase:
    """torch's own two-directional layer with the weights of `recurrence`."""
    own = [next(m for m in direction.modules() if isinstance(m, nn.RNNBase)) for direction in recurrence.children()]
    options = {"nonlinearity": own[0].nonlinearity} if isinstance(own[0], nn.RNN) else {}
    cell = type(own[0])(INPUTS, HIDDEN, batch_first=True, bidirectional=True, **options)
    ours = {f"{key}{end}": w for c, end in zip(own, ("", "_reverse"), strict=True) for key, w in c.state_dict().items()}
    cell.load_state_dict(ours)
    return cell


def gradients(module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    """Gradients of a randomly weighted sum of y, by x and all parameters."""
    weights = torch.randn(y.shape, generator=torch.Generator().manual_seed(3))
    return list(torch.autograd.grad((y * weights).sum(), [x, *module.parameters()]))


@pytest.mark.parametrize("name", TORCHS_OWN)
@pytest.mark.parametrize("directions", ["sum", "concat"])
def test_two_directions_are_torchs_own_over_a_packed_sequence(name: str, directions: str) -> None:
    """To 1e-5 in outputs and gradients, with the same weights; inputs this small reach no clipped cell's ceiling."""
    recurrence = layer(name, directions)
    cell = torch_cell(recurrence)
    lengths = torch.tensor([3, 7, 1, 5])  # torch packs no empty sequence
    x, x_packed = inputs(lengths).requires_grad_(), inputs(lengths).requires_grad_()
    packed = pack_padded_sequence(x_packed, lengths, batch_first=True, enforce_sorted=False)
    expected, _ = pad_packed_sequence(cell(packed)[0], batch_first=True)
    if directions == "sum":
        expected = expected.unflatten(-1, (2, HIDDEN)).sum(dim=2)
    result = recurrence(x, lengths)
    torch.testing.assert_close(result, expected, atol=1e-5, rtol=0)
    for ours, theirs in zip(gradients(recurrence, x, result), gradients(cell, x_packed, expected), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


@every_variant
def test_bfloat16_autocast_on_a_cpu_leaves_float32_results(name: str) -> None:
    recurrence, x = layer(name, "sum"), inputs()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = recurrence(x, LENGTHS)
        from_half = recurrence(x.bfloat16(), LENGTHS)
    torch.testing.assert_close(result, recurrence(x, LENGTHS))  # the dtype too
    torch.testing.assert_close(from_half, recurrence(x.bfloat16().float(), LENGTHS))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("autocast", [torch.bfloat16, torch.float16])
def test_the_dtype_cudnn_runs_in(autocast: torch.dtype) -> None:
    """Autocast of bfloat16 would take float16, without a loss scale."""
    recurrence = layer("lstm", "forward").cuda()
    seen: list[torch.dtype] = []
    recurrence.forwards.register_forward_hook(lambda _, given, y: seen.append(y.dtype))
    with torch.autocast("cuda", dtype=autocast):
        recurrence(inputs().cuda(), LENGTHS)
    assert seen == [autocast]


def test_recurrences_follow_autocast_on_cuda_alone() -> None:
    for device, autocast in (("cuda", None), ("cuda", torch.bfloat16), ("cpu", torch.bfloat16)):
        before = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
        try:  # what torch.autocast sets; the context itself warns where there is no CUDA
            torch.set_autocast_enabled(device, autocast is not None)
            torch.set_autocast_dtype(device, autocast or before[1])
            assert autocast_of_recurrences(device) == (autocast if device == "cuda" else None)
        finally:
            torch.set_autocast_enabled(device, before[0])
            torch.set_autocast_dtype(device, before[1])


@every_variant
def test_under_bfloat16_on_cuda_input_and_weights_are_bfloat16_over_float32_masters(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way of CUDA, taken on a CPU."""

    def on_cuda(device: str) -> torch.dtype | None:
        return torch.bfloat16 if torch.is_autocast_enabled(device) else None

    monkeypatch.setattr("asr_ablations.components.model.directions.autocast_of_recurrences", on_cuda)
    recurrence, types = layer(name, "sum"), set()
    plain = gradients(recurrence, x := inputs().requires_grad_(), expected := recurrence(x, LENGTHS))
    for direction in recurrence.children():
        direction.register_forward_pre_hook(
            lambda module, given: types.update(tensor.dtype for tensor in (given[0], *module.parameters()))
        )
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = recurrence(x, LENGTHS)
    assert types == {result.dtype} == {torch.bfloat16}
    torch.testing.assert_close(result.float(), expected, atol=0.05, rtol=0.05)
    for master, other in zip(gradients(recurrence, x, result.float()), plain, strict=True):
        assert master.dtype == torch.float32, "gradients reach the weights themselves"
        assert (master - other).norm() < 0.05 * other.norm() + 1e-3
    assert {p.dtype for p in recurrence.parameters()} == {torch.float32}


def test_the_lookahead_is_the_formula_of_amodei_et_al() -> None:
    """2016, §3.7: r_(t,i) = Σ_j W_(i,j) h_(t+j-1,i), j from 1 to τ + 1; nothing lies past an utterance."""
    torch.manual_seed(2)
    module, x = Lookahead(3, 2), torch.randn(len(LENGTHS), 7, 3)
    weights = module.convolve.weight[:, 0]  # (D, τ + 1)
    expected = torch.zeros_like(x)
    for row, length in enumerate(LENGTHS.tolist()):
        for t in range(length):
            for j in range(min(3, length - t)):
                expected[row, t] += weights[:, j] * x[row, t + j]
    torch.testing.assert_close(module(x, LENGTHS), expected)

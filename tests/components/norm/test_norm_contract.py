"""Every norm on (B, T, D) and on (B, T, F, C), and masked batch norm against torch's over the packed frames."""

import pytest
import torch
from torch import nn
from torch.nn.functional import batch_norm

from tests.helpers.support import component, group_options, knobs, turned

CHANNELS = 3
LENGTHS = torch.tensor([5, 0, 1, 3])
SHAPES = [(4, 6, CHANNELS), (4, 6, 2, CHANNELS)]

every_variant = pytest.mark.parametrize("name", group_options("norm"))
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=["sequence", "image"])


def norm(name: str, shape: tuple[int, ...], training: bool = True) -> nn.Module:
    """For frames of a batch of this shape, with weights and statistics that are not those of the first moment."""
    module: nn.Module = component("norm", name)(list(shape[2:])).train()
    with torch.no_grad():
        for seed, parameter in enumerate(module.parameters()):
            parameter.copy_(0.5 + torch.rand(parameter.shape, generator=torch.Generator().manual_seed(seed)))
    if not training:
        module(*signal(shape))
    return module.train(training)


def signal(shape: tuple[int, ...], lengths: torch.Tensor = LENGTHS) -> tuple[torch.Tensor, torch.Tensor]:
    return 2 + 3 * torch.randn(shape, generator=torch.Generator().manual_seed(7)), lengths


def valid(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """All valid frames behind one another."""
    return torch.cat([row[:length] for row, length in zip(x, lengths.tolist(), strict=True)])


@every_variant
@every_shape
@pytest.mark.parametrize("training", [True, False])
def test_padding_never_enters(name: str, shape: tuple[int, ...], training: bool) -> None:
    x, lengths = signal(shape)
    garbage = x.clone()
    for row, length in enumerate(lengths.tolist()):
        garbage[row, length:] = 1e4
    clean, dirty = norm(name, shape, training), norm(name, shape, training)
    torch.testing.assert_close(valid(clean(x, lengths), lengths), valid(dirty(garbage, lengths), lengths))
    torch.testing.assert_close(clean.state_dict(), dirty.state_dict())


@every_variant
@every_shape
def test_evaluation_alone_is_as_in_a_batch(name: str, shape: tuple[int, ...]) -> None:
    module, (x, lengths) = norm(name, shape, training=False), signal(shape)
    together = module(x, lengths)
    for row, length in enumerate(lengths.tolist()):
        alone = module(x[row : row + 1, : max(1, length)], lengths[row : row + 1])
        torch.testing.assert_close(together[row, :length], alone[0, :length])


@every_variant
@pytest.mark.parametrize("lengths", [[5, 0, 1, 3], [1, 0, 0, 0], [0, 0, 0, 0]], ids=["mixed", "one frame", "no frame"])
@every_shape
def test_gradients_and_state_stay_finite(name: str, shape: tuple[int, ...], lengths: list[int]) -> None:
    module = norm(name, shape)
    x = signal(shape)[0].requires_grad_()
    module(x, torch.tensor(lengths)).square().sum().backward()
    numbers = [x.grad, *(p.grad for p in module.parameters()), *module.buffers()]
    assert all(n is not None and torch.isfinite(n).all() for n in numbers)


@pytest.mark.parametrize(("name", "key"), knobs("norm"))
def test_no_dead_knobs(name: str, key: str) -> None:
    states = []
    for make in (component("norm", name), turned("norm", name, key)):
        module, (x, lengths) = make(SHAPES[1][2:]).train(), signal(SHAPES[1])
        y = module(x * 1e-2, lengths)  # small, so that what is added to the variance shows
        states.append([y, *module.buffers()])
    assert any(not torch.equal(a, b) for a, b in zip(*states, strict=True))


def packed_reference(module: nn.Module, x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """torch's batch norm over the valid frames only: (output, running mean, running variance)."""
    mean, variance = torch.zeros(CHANNELS), torch.ones(CHANNELS)
    frames = valid(x, lengths).flatten(0, -2)
    y = batch_norm(frames, mean, variance, module.weight, module.bias, True, module.momentum, module.epsilon)
    return y, mean, variance


@every_shape
@pytest.mark.parametrize("lengths", [[5, 0, 1, 3], [6, 6, 6, 6], [2, 0, 0, 0]], ids=["mixed", "full", "one row"])
def test_batch_norm_is_torchs_over_the_valid_frames(shape: tuple[int, ...], lengths: list[int]) -> None:
    module, (x, sizes) = norm("batch", shape), signal(shape, torch.tensor(lengths))
    weights = torch.randn(shape, generator=torch.Generator().manual_seed(8))
    expected, mean, variance = packed_reference(module, (theirs := x.clone().requires_grad_()), sizes)
    result = module((ours := x.clone().requires_grad_()), sizes)
    torch.testing.assert_close(valid(result, sizes).flatten(0, -2), expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(module.running_mean, mean)
    torch.testing.assert_close(module.running_variance, variance)
    by_ours = torch.autograd.grad((valid(result, sizes) * valid(weights, sizes)).sum(), [ours, *module.parameters()])
    by_theirs = torch.autograd.grad(
        (expected * valid(weights, sizes).flatten(0, -2)).sum(), [theirs, *module.parameters()]
    )
    torch.testing.assert_close(by_ours, by_theirs, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_writes_zeros_into_the_padding(training: bool) -> None:
    x, lengths = signal(SHAPES[1])
    y = norm("batch", SHAPES[1], training)(x, lengths)
    assert all((row[length:] == 0).all() for row, length in zip(y, lengths.tolist(), strict=True))


def test_batch_norm_evaluates_with_the_running_statistics() -> None:
    module, (x, _) = norm("batch", SHAPES[0], training=False), signal(SHAPES[0])
    expected = batch_norm(
        x.flatten(0, 1), module.running_mean, module.running_variance, module.weight, module.bias, eps=module.epsilon
    )
    torch.testing.assert_close(module(x, torch.full((4,), 6)).flatten(0, 1), expected)


def test_a_batch_without_a_frame_leaves_the_running_statistics() -> None:
    module, (x, lengths) = norm("batch", SHAPES[0]), signal(SHAPES[0])
    module(x, lengths)
    before = [b.clone() for b in module.buffers()]
    module(x, torch.zeros(4, dtype=torch.long))
    torch.testing.assert_close(list(module.buffers()), before)


def test_no_norm_is_the_identity() -> None:
    x, lengths = signal(SHAPES[1])
    assert torch.equal(norm("none", SHAPES[1])(x, lengths), x)


def test_batch_norm_on_convolutions_alone() -> None:
    """On a frame (F, C) it is batch norm, on (D,) nothing at all."""
    (image, lengths), (sequence, _) = signal(SHAPES[1]), signal(SHAPES[0])
    expected = norm("batch", SHAPES[1])(image, lengths)
    assert torch.equal(norm("batch_convolutions", SHAPES[1])(image, lengths), expected)
    none = norm("batch_convolutions", SHAPES[0])
    assert torch.equal(none(sequence, lengths), sequence)
    assert not list(none.parameters())


@every_shape
def test_layer_norm_is_the_formula_of_each_frame(shape: tuple[int, ...]) -> None:
    """Ba et al. 2016, equations 3 and 4, written out in float64, with the population's variance."""
    module, (x, lengths) = norm("layer", shape), signal(shape)
    frames = x.double().flatten(2)
    centred = frames - frames.mean(dim=2, keepdim=True)
    scaled = centred / (centred.square().mean(dim=2, keepdim=True) + module.epsilon).sqrt()
    expected = (scaled * module.weight.double() + module.bias.double()).view(shape)
    torch.testing.assert_close(module(x, lengths).double(), expected, atol=1e-5, rtol=1e-5)


@every_variant
@every_shape
@pytest.mark.parametrize("training", [True, False])
def test_sixteen_bit_input_gives_sixteen_bit_output(name: str, shape: tuple[int, ...], training: bool) -> None:
    """Statistics are taken in float32 all the same; weights may be 16-bit too (precision=bf16-true)."""
    x, lengths = signal(shape)
    expected = norm(name, shape, training)(x.bfloat16().float(), lengths)
    module = norm(name, shape, training)
    for built in (module, module.bfloat16()):
        result = built(x.bfloat16(), lengths)
        assert result.dtype == torch.bfloat16
        torch.testing.assert_close(valid(result.float(), lengths), valid(expected, lengths), atol=0.1, rtol=0.02)

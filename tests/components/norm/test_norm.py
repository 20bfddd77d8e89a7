"""The contract of norms; batch norm synchronised over ranks, and in fused operations."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import batch_norm

from asr_ablations.components.norm import batch as norms
from asr_ablations.components.norm.batch import BatchNorm
from tests.helpers.interpreter import expect
from tests.helpers.ranks import run_ranks
from tests.helpers.support import REPOSITORY, component, group_options
from tests.helpers.triton_interpreter import interpret, without_its_warnings

CHANNELS = 3
LENGTHS = torch.tensor([5, 0, 1, 3])
SHAPES = [(4, 6, CHANNELS), (4, 6, 2, CHANNELS)]

every_variant = pytest.mark.parametrize("name", group_options("norm"))
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=["sequence", "image"])


def norm(name: str, shape: tuple[int, ...], training: bool = True, **options: Any) -> Any:
    """For frames of a batch of this shape, with weights and statistics that are not those of the first moment."""
    module: nn.Module = component("norm", name)(list(shape[2:]), **options).train()
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


@every_shape
@pytest.mark.parametrize("lengths", [[5, 0, 1, 3], [6, 6, 6, 6], [2, 0, 0, 0]], ids=["mixed", "full", "one row"])
def test_batch_norm_is_torchs_over_the_valid_frames(shape: tuple[int, ...], lengths: list[int]) -> None:
    module, (x, sizes) = norm("batch", shape), signal(shape, torch.tensor(lengths))
    weights = torch.randn(shape, generator=torch.Generator().manual_seed(8))
    mean, variance, theirs = torch.zeros(CHANNELS), torch.ones(CHANNELS), x.clone().requires_grad_()
    frames, parameters = valid(theirs, sizes).flatten(0, -2), (module.weight, module.bias)
    expected = batch_norm(frames, mean, variance, *parameters, True, module.momentum, module.epsilon)
    result = module((ours := x.clone().requires_grad_()), sizes)
    torch.testing.assert_close(valid(result, sizes).flatten(0, -2), expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(module.running_mean, mean)
    torch.testing.assert_close(module.running_variance, variance)
    by_ours = torch.autograd.grad((valid(result, sizes) * valid(weights, sizes)).sum(), [ours, *module.parameters()])
    by_theirs = torch.autograd.grad(
        (expected * valid(weights, sizes).flatten(0, -2)).sum(), [theirs, *module.parameters()]
    )
    torch.testing.assert_close(by_ours, by_theirs, atol=1e-4, rtol=1e-4)


def test_batch_norm_without_a_frame_and_on_convolutions_alone() -> None:
    module, (x, lengths) = norm("batch", SHAPES[0]), signal(SHAPES[0])
    module(x, lengths)
    before = [b.clone() for b in module.buffers()]
    module(x, torch.zeros(4, dtype=torch.long))
    torch.testing.assert_close(list(module.buffers()), before)
    # on a frame (F, C) it is batch norm, on (D,) nothing at all
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


SHAPE = (6, 7, 2, 3)
SYNCHRONISED_LENGTHS = torch.tensor([7, 1, 0, 5, 3, 6])


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    """(signal, what weighs the output in the loss): utterances of other loudness on the second rank."""
    generator = torch.Generator().manual_seed(7)
    loudness = torch.tensor([1.0, 1.0, 1.0, 9.0, 9.0, 9.0])[:, None, None, None]
    return 2 + loudness * torch.randn(SHAPE, generator=generator), torch.randn(SHAPE, generator=generator)


def step(module: nn.Module, rows: slice) -> dict[str, Any]:
    """Output and gradients of these rows, by the loss that is the mean over utterances."""
    x, weights = (value[rows] for value in batch())
    x = x.clone().requires_grad_()
    y = module(x, SYNCHRONISED_LENGTHS[rows])
    (y * weights).sum(dim=(1, 2, 3)).mean().backward()
    assert x.grad is not None
    gradients = [p.grad for p in module.parameters()]
    return {"output": y.detach(), "by_x": x.grad, "by_weights": gradients, **module.state_dict()}


ON_A_RANK = f"""
import os, sys
sys.path[:0] = [{str(REPOSITORY / "src")!r}, {str(REPOSITORY)!r}]
import torch
from torch import distributed
from tests.components.norm.test_norm import SHAPE, norm, step
distributed.init_process_group("gloo")
rank = distributed.get_rank()
torch.save(step(norm("batch_synchronised", SHAPE), slice(3 * rank, 3 * rank + 3)), sys.argv[1] + str(rank))
distributed.barrier()
distributed.destroy_process_group()
os._exit(0)  # gloo aborts now and then while an interpreter ends (torch 2.11); all is written
"""


@pytest.mark.slow
def test_two_ranks_are_one_process_with_the_doubled_batch(tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text(ON_A_RANK)
    expect(0, run_ranks(tmp_path / "worker.py", [tmp_path / "rank-"]))
    expected = step(norm("batch_synchronised", SHAPE), slice(None))
    result = [torch.load(tmp_path / f"rank-{rank}", weights_only=True) for rank in (0, 1)]
    torch.testing.assert_close(torch.cat([half["output"] for half in result]), expected["output"], atol=1e-5, rtol=1e-5)
    by_x = torch.cat([half["by_x"] for half in result]) / 2  # each rank's loss is the mean over half as many
    torch.testing.assert_close(by_x, expected["by_x"], atol=1e-5, rtol=1e-4)
    averaged = [(a + b) / 2 for a, b in zip(*(half["by_weights"] for half in result), strict=True)]  # as DDP does
    torch.testing.assert_close(averaged, expected["by_weights"], atol=1e-4, rtol=1e-4)
    for half in result:
        for key in ("running_mean", "running_variance"):
            torch.testing.assert_close(half[key], expected[key], atol=1e-5, rtol=1e-4)
    alone = step(norm("batch", SHAPE), slice(0, 3))
    assert not torch.allclose(result[0]["output"], alone["output"], atol=0.1), "the other rank's frames count"


def passed(module: BatchNorm, x: torch.Tensor, weights: torch.Tensor, lengths: list[int], way: str) -> Any:
    """Output, gradients and statistics of a step whose output is clipped to 0..1. way: the name of a method."""
    x, sizes = x.clone().requires_grad_(), torch.tensor(lengths)
    is_plain = way == "normalise_masked"
    y = module.normalise_masked(x, sizes).clamp(0.0, 1.0) if is_plain else getattr(module, way)(x, sizes, 0.0, 1.0)
    gradients = torch.autograd.grad((y.float() * weights).sum(), [x, *module.parameters()])
    return {"y": y, **dict(zip(("x", "weight", "bias"), gradients, strict=True)), **dict(module.named_buffers())}


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels run by numpy."""
    pytest.importorskip("triton")
    from asr_ablations.components.norm import fused_kernels

    interpret(monkeypatch, fused_kernels)
    monkeypatch.setattr(fused_kernels, "TILE", 512)  # several tiles of a program, and several programs
    monkeypatch.setattr(fused_kernels, "PROGRAMS", 3)
    monkeypatch.setattr(norms, "operations", type("Kernels", (), fused_kernels.KERNELS))


@pytest.mark.usefixtures("interpreted")
@without_its_warnings
@pytest.mark.parametrize(("shape", "dtype"), [((4, 7, 3), torch.float32), ((4, 7, 2, 3), torch.bfloat16)])
@pytest.mark.parametrize("lengths", [[7, 0, 1, 5], [0, 0, 0, 0]], ids=["some", "none"])
@pytest.mark.parametrize("way", ["normalise_fused", "normalise_valid", "forward"])
def test_one_pass_is_the_plain_one_clipped(
    shape: tuple[int, ...], dtype: torch.dtype, lengths: list[int], way: str
) -> None:
    x, weights = signal(shape)[0].to(dtype), torch.randn(shape, generator=torch.Generator().manual_seed(8))
    plain = passed(norm("batch", shape), x, weights, lengths, "normalise_masked")
    one = passed(norm("batch", shape), x, weights, lengths, way)
    for key, expected in plain.items():
        assert one[key].dtype == expected.dtype
        rounding = {} if dtype == torch.float32 else {"rtol": 2e-2, "atol": 2e-2}
        torch.testing.assert_close(one[key], expected, msg=lambda text, key=key: f"{key}: {text}", **rounding)


@pytest.mark.usefixtures("interpreted")
@without_its_warnings
@pytest.mark.parametrize("bound", [0.0, 1.0])
@pytest.mark.parametrize("way", ["normalise_fused", "normalise_valid", "normalise_masked"])
def test_a_gradient_passes_where_the_output_is_at_a_bound(way: str, bound: float) -> None:
    """A channel of equal values has its bias as output; clamp of torch 2.14 would give it no gradient."""
    x, module = torch.ones(2, 3, 1), norm("batch", (2, 3, 1))
    nn.init.constant_(module.bias, bound)
    assert float(passed(module, x, x, [3, 2], way)["bias"]) == 5


@pytest.mark.usefixtures("interpreted")
@without_its_warnings
def test_ranks_share_their_statistics_in_both_passes() -> None:
    """Two ranks with the same batch have the numbers of one process with both, each half of its weights' gradient."""
    shape, lengths = (4, 7, 2, 3), [7, 0, 1, 5]
    x, weights = signal(shape)[0], torch.randn(shape, generator=torch.Generator().manual_seed(8))
    rank = passed(norm("batch", shape, reduce=lambda sums: 2 * sums), x, weights, lengths, "normalise_fused")
    twice = (value.repeat(2, 1, 1, 1) for value in (x, weights))
    both = passed(norm("batch", shape), *twice, 2 * lengths, "normalise_fused")
    for key, value in both.items():
        own = rank[key].repeat(2, 1, 1, 1) if key in ("y", "x") else rank[key] * (2 if key in ("weight", "bias") else 1)
        torch.testing.assert_close(own, value)


@pytest.mark.usefixtures("interpreted")
@without_its_warnings
def test_kernels_give_the_references_numbers() -> None:
    assert norms.largest_difference("cpu") < 1e-5


@pytest.mark.usefixtures("interpreted")
@without_its_warnings
def test_kernels_keep_what_is_no_number_and_round_to_the_inputs_type() -> None:
    x = torch.tensor([[float("nan")] * 2, [1.0, 3.0], [float("nan"), 5.0]], dtype=torch.bfloat16)
    values = (torch.tensor([2]), *torch.tensor([[0.0] * 2, [1.0] * 2, [1.0] * 2, [0.0] * 2]), 3, 1, 0.0, 0.0, 2.0)
    y = norms.operations.norm_apply(x, *values)
    assert y.dtype == torch.bfloat16
    assert y[0].isnan().all()
    assert y[1:].tolist() == [[1.0, 2.0], [0.0, 0.0]]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_gives_the_references_numbers() -> None:
    assert norms.usable("cuda")

"""Batch norm and clipping in one: the plain one's numbers and gradients, on a CPU and on a GPU, whose kernels run in
Triton's interpreter.
"""

from typing import Any

import pytest
import torch
from torch import nn

from asr_ablations.components.norm import fused
from asr_ablations.components.norm.batch import BatchNorm
from tests.helpers.support import component
from tests.helpers.triton_interpreter import interpret, without_its_warnings

LENGTHS = torch.tensor([7, 0, 1, 5])
ONE_FRAME, NONE = torch.tensor([0, 1, 0, 0]), torch.zeros(4, dtype=torch.long)
SHAPES = [(4, 7, 3), (4, 7, 2, 3)]


def norm(shape: tuple[int, ...], **options: Any) -> BatchNorm:
    module: BatchNorm = component("norm", "batch")(list(shape[2:]), **options).train()
    for seed, parameter in enumerate(module.parameters()):
        nn.init.uniform_(parameter, 0.5, 1.5, generator=torch.Generator().manual_seed(seed))
    return module


def signal(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    return (2 + 3 * torch.randn(shape, generator=generator)).to(dtype), torch.randn(shape, generator=generator)


def passed(
    module: BatchNorm, x: torch.Tensor, weights: torch.Tensor, lengths: torch.Tensor, way: str = "clipped"
) -> Any:
    """Output, gradients and statistics of a step whose output is clipped to 0..1. way: a method, `masked` the plain."""
    x = x.clone().requires_grad_()
    y = module.masked(x, lengths).clamp(0.0, 1.0) if way == "masked" else getattr(module, way)(x, lengths, 0.0, 1.0)
    gradients = torch.autograd.grad((y.float() * weights).sum(), [x, *module.parameters()])
    return {"y": y, **dict(zip(("x", "weight", "bias"), gradients, strict=True)), **dict(module.named_buffers())}


@pytest.mark.parametrize("shape", SHAPES, ids=["sequence", "image"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("lengths", [LENGTHS, ONE_FRAME, NONE], ids=["some", "one", "none"])
@pytest.mark.parametrize("way", ["clipped", "of_valid_rows", "forward"])
def test_one_pass_is_the_plain_one_clipped(
    shape: tuple[int, ...], dtype: torch.dtype, lengths: torch.Tensor, way: str
) -> None:
    x, weights = signal(shape, dtype)
    plain = passed(norm(shape), x, weights, lengths, "masked")
    one = passed(norm(shape), x, weights, lengths, way)
    for key, expected in plain.items():
        assert one[key].dtype == expected.dtype
        rounding = {} if dtype == torch.float32 else {"rtol": 2e-2, "atol": 2e-2}
        torch.testing.assert_close(one[key], expected, msg=lambda text, key=key: f"{key}: {text}", **rounding)


@pytest.mark.parametrize("bound", [0.0, 1.0])
@pytest.mark.parametrize("way", ["clipped", "of_valid_rows", "masked"])
def test_a_gradient_passes_where_the_output_is_at_a_bound(way: str, bound: float) -> None:
    """A channel of equal values has its bias as output."""
    x, module = torch.ones(2, 3, 1), norm((2, 3, 1))
    nn.init.constant_(module.bias, bound)
    assert float(passed(module, x, x, torch.tensor([3, 2]), way)["bias"]) == 5


def test_ranks_share_their_statistics_in_both_passes() -> None:
    """Two ranks with the same batch have the numbers of one process with both, each half of its weights' gradient."""
    x, weights = signal(SHAPES[1], torch.float32)
    rank = passed(norm(SHAPES[1], reduce=lambda sums: 2 * sums), x, weights, LENGTHS)
    both = passed(norm(SHAPES[1]), x.repeat(2, 1, 1, 1), weights.repeat(2, 1, 1, 1), LENGTHS.repeat(2))
    for key in ("y", "x"):
        torch.testing.assert_close(rank[key].repeat(2, 1, 1, 1), both[key])
    for key in ("weight", "bias"):
        torch.testing.assert_close(2 * rank[key], both[key])
    for key in ("running_mean", "running_variance"):
        torch.testing.assert_close(rank[key], both[key])


def test_only_the_input_is_kept_for_the_backward_pass_in_its_own_type() -> None:
    x, _ = signal(SHAPES[1], torch.bfloat16)
    kept: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda value: kept.append(value) or value, lambda value: value):
        norm(SHAPES[1]).clipped(x.requires_grad_(), LENGTHS, 0.0, 1.0)
    assert [value.dtype for value in kept if value.numel() == x.numel()] == [torch.bfloat16]


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels run by numpy, in place of the references on the CPU."""
    pytest.importorskip("triton")
    from asr_ablations.components.norm import fused_kernels

    interpret(monkeypatch, fused_kernels)
    monkeypatch.setattr(fused_kernels, "TILE", 512)  # several tiles of a program, and several programs
    monkeypatch.setattr(fused_kernels, "PROGRAMS", 3)
    monkeypatch.setattr(fused, "operations", type("Kernels", (), fused_kernels.KERNELS))


@pytest.mark.usefixtures("interpreted")
@without_its_warnings
def test_kernels_give_the_references_numbers() -> None:
    assert fused.agreement("cpu") < 1e-5


@pytest.mark.usefixtures("interpreted")
@without_its_warnings
def test_kernels_keep_what_is_no_number_and_round_to_the_inputs_type() -> None:
    x = torch.tensor([[float("nan")] * 2, [1.0, 3.0], [float("nan"), 5.0]], dtype=torch.bfloat16)
    values = (torch.tensor([2]), *torch.tensor([[0.0] * 2, [1.0] * 2, [1.0] * 2, [0.0] * 2]), 3, 1, 0.0, 0.0, 2.0)
    y = fused.operations.norm_apply(x, *values)
    expected = fused.apply(x, *values)
    assert y.dtype == torch.bfloat16
    assert y[0].isnan().all()
    assert y[1:].tolist() == [[1.0, 2.0], [0.0, 0.0]]
    assert torch.equal(y[:2].nan_to_num(), expected[:2].nan_to_num())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_gives_the_references_numbers() -> None:
    assert fused.usable("cuda")

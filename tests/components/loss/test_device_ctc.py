"""CTC of our own: torch's losses and gradients; its kernels in Triton's interpreter."""

from typing import Any

import pytest
import torch
from torch.nn.functional import ctc_loss

from asr_ablations.components.loss import device_ctc as module
from asr_ablations.components.loss.device_ctc import device_ctc, disagreement
from tests.helpers.triton_interpreter import interpret, without_its_warnings


def test_losses_and_gradients_are_those_of_torch() -> None:
    assert disagreement("cpu") < 1e-5


@pytest.mark.parametrize(
    ("frames", "labels"),
    [(0, []), (0, [1]), (1, [1]), (1, []), (2, [1, 1]), (3, [1, 1]), (3, [1, 2, 1])],
    ids=["nothing", "no frame", "one frame", "no label", "infeasible", "feasible", "tight"],
)
def test_the_smallest_utterances(frames: int, labels: list[int]) -> None:
    log_probs = torch.randn(1, 4, 3, generator=torch.Generator().manual_seed(2)).log_softmax(2)
    sizes = torch.tensor([frames]), torch.tensor([len(labels)])
    targets = torch.tensor(labels, dtype=torch.long)
    expected = ctc_loss(log_probs.transpose(0, 1), targets, *sizes, reduction="none")
    torch.testing.assert_close(device_ctc(log_probs, targets, *sizes), expected)


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels run by numpy, in place of the references on the CPU."""
    pytest.importorskip("triton")
    from asr_ablations.components.loss import ctc_kernels

    interpret(monkeypatch, ctc_kernels)
    monkeypatch.setattr(module, "operations", type("Kernels", (), dict(ctc_kernels.KERNELS)))


@pytest.mark.usefixtures("interpreted")
@without_its_warnings
def test_kernels_give_the_numbers_of_torch() -> None:
    assert disagreement("cpu") < 1e-5


@pytest.mark.usefixtures("interpreted")
@without_its_warnings
def test_a_log_probability_that_is_no_number_is_seen(monkeypatch: Any) -> None:
    log_probs = torch.full((1, 3, 3), float("nan"))
    assert device_ctc(log_probs, torch.tensor([1]), torch.tensor([3]), torch.tensor([1])).isnan().all()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_gives_the_numbers_of_torch_and_the_same_bits_twice() -> None:
    assert module.usable("cuda")
    log_probs = torch.randn(16, 640, 29, device="cuda").log_softmax(2).requires_grad_()
    sizes = torch.full((16,), 640), torch.full((16,), 180)
    targets = torch.randint(1, 29, (16 * 180,), device="cuda")
    gradients = [torch.autograd.grad(device_ctc(log_probs, targets, *sizes).sum(), log_probs)[0] for _ in range(2)]
    assert torch.equal(*gradients)

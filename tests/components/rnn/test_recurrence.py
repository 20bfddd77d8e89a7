"""Own recurrences and cells against torch's."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from asr_ablations.components.model import directions
from asr_ablations.components.rnn.gru import GRU
from asr_ablations.components.rnn.lstm import LSTM
from tests.helpers.support import component


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_an_evaluation_takes_two_threads_and_a_training_one(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = directions.call_in_two_threads
    monkeypatch.setattr(directions, "call_in_two_threads", lambda *values: (calls.append(1), real(*values))[1])
    layer = directions.Directions(LSTM, 6, 4, directions="sum").eval()
    x, lengths = torch.randn(2, 5, 6), torch.tensor([5, 3])
    alone = layer(x, lengths)
    assert not calls
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            result = layer(x.clone(), lengths)  # made inside: a tensor of inference mode can be part of no graph at all
        assert result.grad_fn is None
        torch.testing.assert_close(result, alone.detach(), atol=1e-6, rtol=1e-6)
    assert len(calls) == 2
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_an_error_in_the_second_direction_arrives() -> None:
    x, lengths = torch.randn(2, 5, 6), torch.tensor([5, 5])
    with pytest.raises(RuntimeError, match=r"cannot be multiplied|inner product|input.size"):
        directions.call_in_two_threads(GRU(6, 4), GRU(5, 4), x, x, lengths)
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_the_second_direction_has_one_thread_whatever_this_one_sets_meanwhile() -> None:
    """Where torch first needs the number, it takes what any thread set last: that must not be this thread's."""
    pool = directions._helper.__wrapped__()
    assert not pool.submit(torch.is_grad_enabled).result()
    torch.set_num_threads(2)
    assert pool.submit(torch.get_num_threads).result() == 1
    assert torch.get_num_threads() == 2
    pool.shutdown()


INPUTS, HIDDEN, LENGTHS = 6, 5, torch.tensor([40, 40, 40])


def cell(name: str, seed: int = 1) -> nn.Module:
    torch.manual_seed(seed)
    module: nn.Module = component("rnn", name)(INPUTS, HIDDEN)
    return module


def inputs(frames: int = 40, scale: float = 2.0) -> torch.Tensor:
    """(B, T, D), large enough to saturate some gates."""
    return (scale * torch.randn(3, frames, INPUTS, generator=torch.Generator().manual_seed(4))).requires_grad_()


def with_gradients(module: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    """Output, and the gradients of a random weighting of it by x and every parameter."""
    y = module(x, LENGTHS)
    weights = torch.randn(y.shape, generator=torch.Generator().manual_seed(5))
    return [y, *torch.autograd.grad((y * weights).sum(), [x, *module.parameters()])]


@pytest.mark.parametrize("name", ["lstm_basic", "lstm_fused"])
def test_it_is_torchs_lstm_to_1e_5_with_its_weights_and_starts_from_them(name: str) -> None:
    """In outputs and gradients, and the weights load under the names that they have in rnn=lstm; from the same seed, so
    that an ablation over implementations has nothing else in it.
    """
    theirs, ours = cell("lstm"), cell(name, seed=2)
    torch.testing.assert_close(cell(name).state_dict(), theirs.state_dict(), atol=0, rtol=0)
    ours.load_state_dict(theirs.state_dict())
    for result, expected in zip(with_gradients(ours, inputs()), with_gradients(theirs, inputs()), strict=True):
        torch.testing.assert_close(result, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 40.0])
def test_the_clipped_rnn_is_its_formula(scale: float) -> None:
    module = cell("rnn_relu")
    x, x_reference = inputs(scale=scale), inputs(scale=scale)
    weights, hidden, outputs = dict(module.named_parameters()), torch.zeros(len(x), HIDDEN), []
    for t in range(x.shape[1]):  # Ambroszczyk2019 §1.2 and §2.4: h = min(max(W x + U h + b, 0), ceiling)
        past = hidden @ weights["cell.weight_hh_l0"].T + weights["cell.bias_hh_l0"]
        current = x_reference[:, t] @ weights["cell.weight_ih_l0"].T + weights["cell.bias_ih_l0"]
        hidden = torch.minimum(torch.relu(current + past), torch.tensor(20.0))
        outputs.append(hidden)
    result, expected = module(x, LENGTHS), torch.stack(outputs, dim=1)
    torch.testing.assert_close(result, expected, atol=1e-4, rtol=1e-5)
    assert (result.max() == 20.0) == (scale > 1), "the ceiling of Ambroszczyk2019 §1.2 is reached by loud inputs only"
    weights = torch.randn(result.shape, generator=torch.Generator().manual_seed(6))
    ours, theirs = (torch.autograd.grad((y * weights).sum(), v)[0] for y, v in ((result, x), (expected, x_reference)))
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("frames", "scale", "tolerance"), [(60, 2.0, 1e-5), (1000, 2.0, 1e-3), (60, 100.0, 1e-3)])
def test_min_grus_parallel_scan_is_its_sequential_form(frames: int, scale: float, tolerance: float) -> None:
    """At a thousand frames and with gates wide open, too, where float32 loses digits as the docstring says."""
    module, x = cell("min_gru"), inputs(frames, scale)
    result = module(x, LENGTHS)
    gradient = torch.autograd.grad(result.sum(), x)[0]
    assert result.dtype == torch.float32
    assert torch.isfinite(gradient).all()
    x_reference = x.detach().requires_grad_()
    # Feng et al. 2024, §3.1.3 and appendix B, a frame after the other, in float64
    update, candidate = (layer.double()(x_reference.double()) for layer in (module.update, module.candidate))
    kept, positive = 1 - update.sigmoid(), torch.where(candidate >= 0, candidate + 0.5, candidate.sigmoid())
    hidden, outputs = torch.zeros(len(x), HIDDEN, dtype=torch.float64), []
    for t in range(frames):
        hidden = kept[:, t] * hidden + (1 - kept[:, t]) * positive[:, t]
        outputs.append(hidden)
    expected = torch.stack(outputs, dim=1)
    torch.testing.assert_close(result.double(), expected, atol=tolerance, rtol=tolerance)
    expected_gradient = torch.autograd.grad(expected.sum(), x_reference)[0]
    largest = expected_gradient.abs().max().item()
    torch.testing.assert_close(gradient, expected_gradient, atol=2 * tolerance * largest, rtol=tolerance)


EVEN = 6


def associative_reference(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Danihelka et al. 2016 in torch's own complex numbers, a frame and a copy after the other, in float64; a
    permutation is a product with its matrix.
    """
    half = EVEN // 2
    weights = {name: value.double() for name, value in module.state_dict().items()}
    matrices = [torch.eye(half, dtype=torch.complex128)[order] for order in module.permutations]  # type: ignore[operator, union-attr]
    hidden, traces = torch.zeros(len(x), EVEN, dtype=torch.float64), [torch.zeros(len(x), half) + 0j for _ in matrices]

    def number(sums: torch.Tensor) -> torch.Tensor:
        both = torch.complex(sums[:, :half], sums[:, half:])
        return both / both.abs().clamp(min=1)

    outputs = []
    for frame in x.double().unbind(1):
        sums = [
            frame @ weights[f"inputs.{part}.weight"].T
            + weights[f"inputs.{part}.bias"]
            + hidden @ weights[f"recurrent.{part}.weight"].T
            for part in range(6)
        ]
        forget, enter, leave = (gate.sigmoid() for gate in sums[:3])
        key, query, value = map(number, sums[3:])
        traces = [
            forget * trace + (key @ matrix.T) * (enter * value) for trace, matrix in zip(traces, matrices, strict=True)
        ]
        read = sum((query @ matrix.T) * trace for trace, matrix in zip(traces, matrices, strict=True)) / len(traces)
        read = read / read.abs().clamp(min=1)
        hidden = torch.cat([leave * read.real, leave * read.imag], dim=1)
        outputs.append(hidden)
    return torch.stack(outputs, dim=1)


@pytest.mark.parametrize(("copies", "scale"), [(1, 1.0), (4, 1.0), (4, 10.0)])
def test_the_associative_lstm_is_its_equations(copies: int, scale: float) -> None:
    """Loud inputs reach the bound of keys and values, where a modulus is cut to 1."""
    torch.manual_seed(1)
    module: nn.Module = component("rnn", "associative_lstm", copies=copies)(INPUTS, EVEN)
    x = inputs(scale=scale).detach()
    with torch.no_grad():
        result, expected = module(x, LENGTHS), associative_reference(module, x)
    torch.testing.assert_close(result.double(), expected, atol=1e-5, rtol=1e-5)
    assert (result.unflatten(2, (2, -1)).square().sum(dim=2) <= 1 + 1e-6).all()
